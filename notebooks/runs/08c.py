"""What the investigation of lesson 08c reads: python notebooks/runs/08c.py writes it, in about eight minutes."""

import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_edu.parts.position import rotary_angles, rotate

DATA = Path(__file__).parents[2] / "residual_course" / "data" / "runs" / "08c_which_mixers_copy.json"
WIDTH, LENGTHS = 16, (12, 24, 48)


def copying(count: int, length: int, generator: torch.Generator, marked: bool = False) -> tuple[Tensor, Tensor]:
    """Return rows of noise with two letters and two questions, and the letters; ``marked``: the second asks by !."""
    places = torch.rand(count, length, generator=generator).argsort(1)[:, :2]
    letters = torch.randint(2, 10, (count, 2), generator=generator)
    tokens = torch.zeros(count, length).long().scatter(1, places.sort(1).values, letters)
    asks = torch.tensor([1, 10 if marked else 1]).expand(count, 2)
    return torch.cat([tokens, asks], dim=1), letters


class Short(nn.Module):
    """A short causal convolution of each channel; where ``at`` is False a position has its own tap alone."""

    def __init__(self, taps: int, at: str = "everywhere") -> None:
        super().__init__()
        self.conv, self.taps, self.at = nn.Conv1d(WIDTH, WIDTH, taps, groups=WIDTH), taps, at

    def forward(self, x: Tensor) -> Tensor:
        """Return x with what stands before each position mixed in."""
        y = self.conv(F.pad(x.mT, (self.taps - 1, 0))).mT
        if self.at == "everywhere":
            return y
        own = F.conv1d(x.mT, self.conv.weight[..., -1:], self.conv.bias, groups=WIDTH).mT
        place = torch.arange(x.shape[1])[:, None]
        end = x.shape[1]
        return torch.where(place == end - 1 if self.at == "last" else place < end - 2, y, own)


class Attention(nn.Module):
    """Causal attention of lesson 08a; ``own_query`` adds a learned vector to the query of the last position."""

    def __init__(self, heads: int = 2, rotary: bool = True, own_query: bool = False) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.heads, self.rotary = heads, rotary
        self.extra = nn.Parameter(torch.randn(WIDTH)) if own_query else None

    def forward(self, x: Tensor) -> Tensor:
        """Return the mixed x."""
        q, k, v = self.enter(x).chunk(3, dim=-1)
        if self.extra is not None:
            q = torch.cat([q[:, :-1], q[:, -1:] + self.extra], dim=1)
        q, k, v = (z.unflatten(-1, (self.heads, -1)).transpose(1, 2) for z in (q, k, v))
        if self.rotary:
            angles = rotary_angles([q.shape[2]], q.shape[3])
            q, k = rotate(q, angles), rotate(k, angles)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.leave(y.transpose(1, 2).flatten(2))


class Convolution(nn.Module):
    """The lesson's causal convolution, with ``gated`` between two gates."""

    def __init__(self, gated: bool = False, lags: int = 14) -> None:
        super().__init__()
        self.gated = gated
        self.enter, self.leave = nn.Linear(WIDTH, (3 if gated else 1) * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.conv = nn.Conv1d(WIDTH, WIDTH, lags, groups=WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Return the mixed x."""
        if self.gated:
            q, k, v = self.enter(x).chunk(3, dim=-1)
            return self.leave(q * self.past(k * v))
        return self.leave(self.past(self.enter(x)))

    def past(self, x: Tensor) -> Tensor:
        """Return the convolution alone."""
        return self.conv(F.pad(x.mT, (self.conv.kernel_size[0] - 1, 0))).mT


class Scan(nn.Module):
    """The lesson's selective scan; its dt starts at 0.69, or between the two of ``first``."""

    def __init__(
        self, first: tuple[float, float] | None = None, decay: float = 1.0, heads: int = 4, N: int = 8
    ) -> None:
        super().__init__()
        self.sizes, self.decay = [N, N, heads], decay
        self.value, self.leave = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.choose = nn.Linear(WIDTH, sum(self.sizes), bias=False)
        dt = torch.full((heads,), math.log(2))
        if first:
            dt = torch.empty(heads).uniform_(*map(math.log, first)).exp()
        self.dt0 = nn.Parameter(dt.expm1().log())  # softplus of it is dt
        self.log_A = nn.Parameter(torch.arange(1.0, heads + 1).log())

    def forward(self, x: Tensor) -> Tensor:
        """Return the mixed x."""
        B, C, dt = self.choose(x).split(self.sizes, dim=-1)
        dt = F.softplus(dt + self.dt0)
        v = self.value(x).unflatten(-1, (len(self.dt0), -1))
        total = (dt * -self.decay * self.log_A.exp()).cumsum(1).mT
        left = total[..., :, None] - total[..., None, :]
        later = torch.ones(left.shape[-2:]).triu(1).bool()
        scores = (C @ B.mT)[:, None] * left.masked_fill(later, -torch.inf).exp()
        return self.leave((scores @ (dt[..., None] * v).transpose(1, 2)).transpose(1, 2).flatten(2))


MIXERS: dict[str, tuple[type[nn.Module], dict[str, Any]]] = {
    "attention": (Attention, {}),
    "convolution": (Convolution, {}),
    "gated convolution": (Convolution, {"gated": True}),
    "scan, long dt": (Scan, {}),
    "scan, short dt": (Scan, {"first": (0.001, 0.1)}),
}


class Network(nn.Module):
    """The lesson's network, of one block or more; with ``short`` a short convolution stands before each mixer."""

    def __init__(self, mixer: str, **c: Any) -> None:
        super().__init__()
        kind, settings = MIXERS[mixer]
        self.embed, self.out = nn.Embedding(11, WIDTH), nn.Linear(WIDTH, 11)
        self.table = nn.Parameter(torch.randn(64, WIDTH)) if c.get("table") else None
        self.blocks, hidden = nn.ModuleList(), c.get("hidden", 128)
        for _ in range(c.get("blocks", 1)):
            short = Short(c.get("short", 1), c.get("at", "everywhere")) if "short" in c else nn.Identity()
            mixes = nn.Sequential(nn.RMSNorm(WIDTH), short, kind(**settings | c.get("settings", {})))
            self.blocks.append(mixes)
            if hidden:
                up, down = nn.Linear(WIDTH, hidden), nn.Linear(hidden, WIDTH)
                self.blocks.append(nn.Sequential(nn.RMSNorm(WIDTH), up, nn.GELU(), down))
        self.norm = nn.RMSNorm(WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return scores of each token at each position."""
        x = self.embed(tokens)
        if self.table is not None:
            x = x + self.table[: x.shape[1]]
        for branch in self.blocks:
            x = x + branch(x)
        return self.out(self.norm(x))


def learn(seed: int, mixer: str, updates: int = 400, rate: float = 0.01, marked: bool = False, **c: Any) -> nn.Module:
    """Return a trained network."""
    torch.manual_seed(seed)
    net, generator = Network(mixer, **c), torch.Generator().manual_seed(seed + 1)
    adam = torch.optim.Adam(net.parameters(), fused=True)
    for update in range(updates):
        adam.param_groups[0]["lr"] = rate * min(1, 2 * (1 - update / updates))
        tokens, letters = copying(64, 12, generator, marked)
        loss = F.cross_entropy(net(tokens)[:, -2:].flatten(0, 1), letters.flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()
    return net


@torch.no_grad()
def answers(net: nn.Module, length: int, marked: bool) -> tuple[Tensor, Tensor]:
    """Return what the network answers on 2,000 new rows, and the letters."""
    tokens, letters = copying(2000, length, torch.Generator().manual_seed(99), marked)
    return torch.cat([net(some)[:, -2:].argmax(-1) for some in tokens.split(200)]), letters


def run(seed: int, name: str, c: dict[str, Any]) -> dict[str, float]:
    """Train; return the share of right answers at three lengths, and how often both answers are alike."""
    net, found = learn(seed, **c), {}
    for length in LENGTHS[:1] if c.get("table") else LENGTHS:
        given, letters = answers(net, length, c.get("marked", False))
        found[f"{name}: {length}"] = (given == letters).float().mean().item()
        if length == LENGTHS[0]:
            found[f"{name}: alike"] = (given[:, 0] == given[:, 1]).float().mean().item()
    return found


CHANGES: dict[str, dict[str, Any]] = {
    "bare": {},
    "short convolution": {"short": 3},
    "? and !": {"marked": True},
    "position table": {"table": True},
    "two blocks": {"blocks": 2},
    "? and !, no MLP": {"marked": True, "hidden": 0},
}
JOBS: dict[str, dict[str, Any]] = {
    f"{mixer}, {change}": {"mixer": mixer} | c for change, c in CHANGES.items() for mixer in MIXERS
}
JOBS |= {f"{mixer}, 4,000 updates": {"mixer": mixer, "updates": 4000} for mixer in list(MIXERS)[:3]}
ATTENTION: dict[str, dict[str, Any]] = {
    "one tap": {"short": 1},
    "tap from ? to ?": {"short": 2, "at": "last"},
    "taps on the twelve": {"short": 3, "at": "twelve"},
    "own query": {"settings": {"own_query": True}},
    "four heads": {"settings": {"heads": 4}},
    "a larger MLP": {"hidden": 256},
    "rate 0.003": {"rate": 0.003},
    "rate 0.03": {"rate": 0.03},
    "not rotary": {"settings": {"rotary": False}},
    "not rotary, ? and !": {"settings": {"rotary": False}, "marked": True},
    "not rotary, position table": {"settings": {"rotary": False}, "table": True},
    "not rotary, short convolution": {"settings": {"rotary": False}, "short": 3},
}
JOBS |= {f"attention, {change}": {"mixer": "attention"} | c for change, c in ATTENTION.items()}
JOBS["scan, no fading"] = {"mixer": "scan, long dt", "settings": {"decay": 0.0}}
JOBS["scan, no fading, ? and !"] = JOBS["scan, no fading"] | {"marked": True}
JOBS["scan, little fading"] = {"mixer": "scan, long dt", "settings": {"decay": 0.05}}
JOBS["scan, short dt, more fading"] = {"mixer": "scan, short dt", "settings": {"decay": 20.0}}

if __name__ == "__main__":
    torch.set_num_threads(1)
    runs: dict[str, dict[str, float]] = {str(seed): {} for seed in range(3)}
    for name, c in JOBS.items():
        for seed in range(3):
            runs[str(seed)] |= {key: round(share, 3) for key, share in run(seed, name, c).items()}
        print(f"{name:40}", *(runs[seed][f"{name}: 12"] for seed in runs), flush=True)
    settings = {"updates": 400, "rate": 0.01, "torch": torch.__version__}
    DATA.write_text(json.dumps({"settings": settings, "runs": runs}, indent=1) + "\n", encoding="utf-8")

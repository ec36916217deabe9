"""What the investigation of lesson 07a reads: python notebooks/runs/07a.py writes it, in about ten minutes."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.datasets import digits, python_documentation
from residual_course.training import minibatches, train

DATA = Path(__file__).parents[2] / "residual_course" / "data" / "runs"
WIDTH = 32
AXES: dict[str, Any] = {"channels": 2, "positions and channels": (1, 2), "positions": 1}
FAULTS = (
    "healthy",
    "no skip",
    "norm on the stream",
    "norm forgotten",
    "branch detached",
    "mixer in the MLP's place",
    "zero gate and zero output",
    "one block six times",
    "mixer over the batch",
)

data = digits()
mean, std = data.train_images.mean(), data.train_images.std()
text = python_documentation().lower()
signs = sorted(set(text))
ids = torch.tensor([signs.index(letter) for letter in text])
cut = int(0.8 * len(ids))


class Attention(nn.Module):
    """Attention with one head; ``causal`` looks back only."""

    def __init__(self, causal: bool = False) -> None:
        super().__init__()
        self.causal = causal
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        """Mix the positions of (batch, positions, channels)."""
        return self.out(F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x), is_causal=self.causal))


class Norm(nn.Module):
    """Mean and spread over some axes, a gain and a bias for each channel."""

    def __init__(self, axes: Any) -> None:
        super().__init__()
        self.axes = axes
        self.gain, self.bias = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise x."""
        x = x - x.mean(self.axes, keepdim=True)
        return self.gain * x / (x.square().mean(self.axes, keepdim=True) + 1e-5).sqrt() + self.bias


def perceptron() -> nn.Sequential:
    """Return the MLP of all blocks."""
    return nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))


class Block(nn.Module):
    """A block with a fault, or none; its MLP's branch has a gate for each channel."""

    def __init__(
        self, fault: str = "healthy", norm: Callable[[], nn.Module] | None = None, causal: bool = False
    ) -> None:
        super().__init__()
        norm = norm or partial(nn.LayerNorm, WIDTH)
        self.fault, self.mixer, self.norm1, self.norm2 = fault, Attention(causal), norm(), norm()
        self.mlp, closed = perceptron(), fault == "zero gate and zero output"
        self.gate = nn.Parameter(torch.full((WIDTH,), 0.0 if closed else 1.0))
        for p in self.mlp[2].parameters() if closed else ():
            nn.init.zeros_(p)

    def forward(self, x: Tensor) -> Tensor:
        """Return x after the block."""
        h = self.norm1(x)
        turned = self.fault == "mixer over the batch"  # as with batch_first=False
        x = x + (self.mixer(h.transpose(0, 1)).transpose(0, 1) if turned else self.mixer(h))
        if self.fault == "norm on the stream":
            x = self.norm2(x)
            return x + self.gate * self.mlp(x)
        seen = x.detach() if self.fault == "branch detached" else x
        h = x if self.fault == "norm forgotten" else self.norm2(seen)
        branch = self.gate * (self.mixer(h) if self.fault == "mixer in the MLP's place" else self.mlp(h))
        return branch if self.fault == "no skip" else x + branch


class Network(nn.Module):
    """Positions, blocks, a last norm and a last layer; ``pooled`` takes the mean of all positions."""

    def __init__(self, inputs: int, outputs: int, positions: int, blocks: list[Block], pooled: bool) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(inputs, WIDTH), nn.Linear(WIDTH, outputs)
        self.place = nn.Parameter(torch.randn(positions, WIDTH) / 2)
        self.blocks, self.norm, self.pooled = nn.Sequential(*blocks), nn.LayerNorm(WIDTH), pooled

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores; rows may be shorter than the table of positions."""
        x = self.norm(self.blocks(self.into(x) + self.place[: x.shape[1]]))
        return self.out(x.mean(1) if self.pooled else x)


def rows_of_letters(ids: Tensor, seed: int, size: int = 64) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield 32 letters in a row, one-hot, and for each the next one."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        at = torch.randint(len(ids) - 33, (size,), generator=generator)
        rows = ids[at[:, None] + torch.arange(33)]
        yield F.one_hot(rows[:, :-1], len(signs)).float(), rows[:, 1:]


def read_text(name: str, seed: int) -> dict[str, float]:
    """Return the shares right of 17th letters: in rows of 32 letters, and in rows that are cut after 16."""
    torch.manual_seed(seed)
    blocks = [Block(norm=partial(Norm, AXES[name]), causal=True) for _ in range(2)]
    net = Network(len(signs), len(signs), 32, blocks, pooled=False)
    adam = torch.optim.Adam(net.parameters(), 3e-3, fused=True)
    train(lambda x, y: F.cross_entropy(net(x).mT, y), rows_of_letters(ids[:cut], seed), adam, 600)
    x, y = next(rows_of_letters(ids[cut:], 99, 960))
    with torch.no_grad():
        outs = {"rows of 32": net(x)[:, 15], "cut after 16": net(x[:, :16])[:, 15]}
    return {f"text, {name}: {how}": (out.argmax(-1) == y[:, 15]).float().mean().item() for how, out in outs.items()}


def patches(images: Tensor) -> Tensor:
    """Return digits as four patches."""
    return ((images - mean) / std).unfold(1, 4, 4).unfold(2, 4, 4).reshape(-1, 4, 16)


def patient(fault: str, seed: int) -> Network:
    """Return a new network of six blocks with a fault."""
    torch.manual_seed(seed)
    blocks = [Block(fault)] * 6 if fault == "one block six times" else [Block(fault) for _ in range(6)]
    return Network(16, 10, 4, blocks, pooled=True)


def learn(net: Network, steps: int, seed: int) -> None:
    """Train on digits, with Adam at 0.001 and 32 digits a step."""
    adam = torch.optim.Adam(net.parameters(), 1e-3, fused=True)
    batches = minibatches(patches(data.train_images), data.train_labels, size=32, seed=seed)
    train(lambda x, y: F.cross_entropy(net(x), y), batches, adam, steps)


def probed(fault: str, seed: int) -> dict[str, float]:
    """Return the numbers of six probes of a new network."""
    net, x = patient(fault, seed), patches(data.train_images[:16]).requires_grad_()
    count = sum(p.numel() for p in net.blocks.parameters())
    (others,) = torch.autograd.grad(net(x)[0].square().sum(), x)
    block = net.blocks[0].double()
    h, v, pull = torch.randn(3, 2, 4, WIDTH, dtype=torch.float64).unbind()
    h.requires_grad_()
    step = ((block(h + 1e-4 * v) - block(h - 1e-4 * v)) * pull).sum() / 2e-4
    slope = step / (torch.autograd.grad((block(h) * pull).sum(), h)[0] * v).sum()
    found = {"size": block(h).norm() / h.norm(), "× 100": block(100 * h).norm() / block(h).norm(), "slope": slope}
    learn(net.float(), 4, seed)
    grads = [p.grad for p in net.parameters()]
    found |= {"None": sum(grad is None for grad in grads), "zero": sum(g is not None and not g.any() for g in grads)}
    found |= {"rows": others[1:].abs().max()}
    return {probe: float(f"{torch.as_tensor(value).item():.4g}") for probe, value in found.items()} | {"count": count}


def read_digits(fault: str, seed: int) -> dict[str, float]:
    """Return the shares of test digits read after 200 steps, all in one batch and one at a time."""
    net = patient(fault, seed)
    learn(net, 200, seed)
    x, y = patches(data.test_images), data.test_labels
    with torch.no_grad():
        outs = {"200 steps": net(x), "one at a time": torch.cat([net(one[None]) for one in x])}
    return {f"{fault}: {how}": (out.argmax(-1) == y).float().mean().item() for how, out in outs.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    runs: dict[str, dict[str, Any]] = {str(seed): {} for seed in range(3)}
    for seed in range(3):
        found: dict[str, float] = {}
        for fault in FAULTS:
            found |= read_digits(fault, seed)
        for name in AXES:
            found |= read_text(name, seed)
        runs[str(seed)] = {name: round(share, 4) for name, share in found.items()}
        runs[str(seed)]["probes"] = {fault: probed(fault, seed) for fault in FAULTS}
        print(json.dumps(runs[str(seed)]), flush=True)
    settings = {"width": WIDTH, "torch": torch.__version__}
    stored = json.dumps({"settings": settings, "runs": runs}, indent=1, ensure_ascii=False)
    (DATA / "07a_coin_flips.json").write_text(stored + "\n", encoding="utf-8")

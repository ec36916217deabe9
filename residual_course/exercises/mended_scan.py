"""Exercise on mending: a small selective mixer in which three lines are wrong, one of them silent in training."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet, construct, run

Answer = Callable[[], Any]  # makes a mixer

WIDTH, HEADS, STATE, QUESTION = 16, 4, 8, 1
TRAINED, LONGER, STEPS, RATE = 12, 48, 400, 1e-2
NEAR, FAR, PARAMETERS = 0.95, 0.85, 1000  # right answers at both lengths, and the parameters that a mixer may have
SEEDS, CHANGE = 3, 1e-4  # of which one is enough; what moves an output, over the largest


class Handed(nn.Module):
    """The mixer as it is handed over; its class attributes are what a mend changes."""

    alone = False  # whether a step depends on its own position alone, and not on the mean step of all
    fades = False  # whether the fading depends on the input, as the writing does
    first = -5.0  # of the steps at the start, before the softplus

    def __init__(self) -> None:
        super().__init__()
        self.cut = [WIDTH, STATE, STATE, HEADS]
        self.enter, self.leave = nn.Linear(WIDTH, sum(self.cut), bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.dt0 = nn.Parameter(torch.full((HEADS,), self.first))
        self.log_A = nn.Parameter(torch.arange(1.0, HEADS + 1).log())

    def forward(self, x: Tensor) -> Tensor:
        """Return an output at each position of x, (rows, positions, WIDTH)."""
        v, B, C, dt = self.enter(x).split(self.cut, dim=-1)
        dt = F.softplus(dt + self.dt0)
        if not self.alone:
            dt = dt / dt.mean(1, keepdim=True)
        return self.leave(self.scan(v.unflatten(-1, (HEADS, -1)), dt, B, C).flatten(2))

    def scan(self, v: Tensor, dt: Tensor, B: Tensor, C: Tensor) -> Tensor:
        """Return the scan of values in heads, from all pairs at once."""
        steps = dt if self.fades else F.softplus(self.dt0).expand_as(dt)
        total = (steps * -self.log_A.exp()).cumsum(1).mT
        later = torch.ones(v.shape[1], v.shape[1]).triu(1).bool()
        left = (total[..., :, None] - total[..., None, :]).masked_fill(later, -torch.inf).exp()
        return (((C @ B.mT)[:, None] * left) @ (dt[..., None] * v).transpose(1, 2)).transpose(1, 2)


def changed(**values: Any) -> type[Handed]:
    """Return the mixer with other values of its attributes."""
    return type("Changed", (Handed,), values)


Mended = changed(alone=True, fades=True, first=0.0)


class _Network(nn.Module):
    def __init__(self, mixer: nn.Module) -> None:
        super().__init__()
        self.embed, self.mixer = nn.Embedding(11, WIDTH), mixer
        self.norm1, self.norm2, self.norm3 = (nn.RMSNorm(WIDTH, eps=1e-5) for _ in range(3))
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))
        self.out = nn.Linear(WIDTH, 11)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        x = x + self.mixer(self.norm1(x))
        return self.out(self.norm3(x + self.mlp(self.norm2(x))))


def _copying(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return tokens, (count, length + 2): 0 noise, 1 a question, 2 to 9 symbols; and the two symbols in order."""
    places = torch.rand(count, length, generator=generator).argsort(1)[:, :2].sort(1).values
    symbols = torch.randint(2, 10, (count, 2), generator=generator)
    tokens = torch.zeros(count, length).long().scatter(1, places, symbols)
    return F.pad(tokens, (0, 2), value=QUESTION), symbols


def _mixer(f: Answer, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    mixer = construct(f).float()
    for length in (TRAINED + 2, LONGER + 2):
        run(mixer, x := torch.ones(3, length, WIDTH), like=x)
    return mixer


def _drawn() -> Tensor:
    return torch.randn(4, LONGER, WIDTH, generator=torch.Generator().manual_seed(7))


def _far(after: Tensor, before: Tensor) -> float:
    return ((after - before).abs().max() / before.abs().max().clamp(min=1e-12)).item()


@torch.enable_grad()
def _taught(f: Answer, seed: int) -> _Network:
    net, generator = _Network(_mixer(f, seed)), torch.Generator().manual_seed(seed + 1)
    adam = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], fused=True)
    for step in range(STEPS):
        adam.param_groups[0]["lr"] = RATE * min(1, 2 * (1 - step / STEPS))
        tokens, symbols = _copying(64, TRAINED, generator)
        loss = F.cross_entropy(net(tokens)[:, -2:].flatten(0, 1), symbols.flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()
    return net


@torch.no_grad()
def _right(net: _Network, length: int) -> float:
    tokens, symbols = _copying(500, length, torch.Generator().manual_seed(99))
    return (net(tokens)[:, -2:].argmax(-1) == symbols).float().mean().item()


def _is_a_mixer(f: Answer) -> None:
    count = sum(p.numel() for p in _mixer(f).parameters())
    if count > PARAMETERS:
        raise Unmet(f"it has {count:,} parameters, where at most {PARAMETERS:,} are allowed")


@torch.no_grad()
def _past_alone(f: Answer) -> None:
    mixer, x = _mixer(f), _drawn()
    for cut in (30, 1, LONGER - 1):
        later = torch.cat([x[:, :cut], x[:, cut:].flip(0) + 1], dim=1)
        if not (moved := _far(mixer(later)[:, :cut], mixer(x)[:, :cut])) <= CHANGE:
            raise Unmet(f"other inputs from position {cut} on move the outputs before it by {moved:.0%} of the largest")
    if not (moved := _far(mixer(x[:1]), mixer(x)[:1])) <= CHANGE:
        raise Unmet(f"other sequences in a batch move a sequence's outputs by {moved:.0%} of the largest")


def _learns(f: Answer) -> None:
    best = (0.0, 0.0)
    for seed in range(SEEDS):
        net = _taught(f, seed)
        found = _right(net, TRAINED), _right(net, LONGER)
        if found[0] >= NEAR and found[1] >= FAR:
            return
        best = max(best, found, key=sum)
    raise Unmet(
        f"after {STEPS} updates it is right in {best[0]:.2f} at {TRAINED} positions and {best[1]:.2f} at {LONGER}"
    )


LOOK_AT_THE_FIRST = "Change the last inputs, and look at the first outputs."

MENDED_SCAN = Exercise(
    reference=Mended,
    observe=lambda f: (1e3 * _mixer(f)(_drawn()).detach()).round(),
    effort=45,  # it trains up to three networks
    properties=(
        Property(f"it returns a mixer of {WIDTH} channels, with at most {PARAMETERS:,} parameters", _is_a_mixer, ()),
        Property("no output depends on a later input, or on another sequence", _past_alone),
        Property(
            f"after {STEPS} updates {NEAR} at {TRAINED} positions and {FAR} at {LONGER} are right", _learns, trains=True
        ),
    ),
    mistakes=(
        Mistake(Handed, "the mixer as it was handed over", LOOK_AT_THE_FIRST),
        Mistake(
            changed(alone=True, fades=True),
            "a scan whose first steps are .007",
            "After how many positions is half of the state left?",
        ),
        Mistake(
            changed(alone=True, first=0.0),
            "a fading that does not depend on the input",
            "What is left of the first input at the last position: does it depend on what lies between?",
        ),
        Mistake(changed(fades=True, first=0.0), "large first steps, divided by their mean", LOOK_AT_THE_FIRST),
    ),
    hints=(
        "Three measurements in a new mixer: other inputs at the end; what is left of the first input with other "
        "inputs in between; after how many positions half of the state is left.",
        "Each of the three numbers has a line of its own. Which line takes more than its own position? Which numbers "
        "does the fading use, and which does the writing? How large is softplus(dt0)?",
    ),
)

EXERCISES = {"mended_scan": MENDED_SCAN}

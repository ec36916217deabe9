"""Exercise on mending: a network that predicts flips, and depends on later positions and on other rows."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet

Answer = Callable[[], Any]  # makes a network

WIDTH, ROW, STEPS, RATE = 32, 16, 300, 3e-3
CHANGE, ROUNDING = 1e-4, 1e-6  # more than rounding moves an output, and a gradient
ASKED = 0.98  # the share that must be right of the flips that can be known


def repeats(size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return rows in which each flip repeats the one four places before, and for each position the next flip."""
    coins = torch.randint(2, (size, 4), generator=generator).repeat(1, 5)[:, : ROW + 1]
    return 2.0 * coins[:, :-1, None] - 1, coins[:, 1:]


class Over(nn.Module):
    """A norm over axes of (batch, positions, channels), whose statistics are those of what it is given."""

    def __init__(self, *axes: int) -> None:
        super().__init__()
        self.axes = axes
        self.gain, self.bias = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """Return x with mean 0 and spread 1 over the axes."""
        x = x - x.mean(self.axes, keepdim=True)
        return self.gain * x / (x.square().mean(self.axes, keepdim=True) + 1e-5).sqrt() + self.bias


class Handed(nn.Module):
    """The network as it is handed over; its class attributes are what a mend changes."""

    ahead = 2
    axes1: tuple[int, ...] = (1, 2)
    axes2: tuple[int, ...] = (0, 1)
    used = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(1, WIDTH), nn.Linear(WIDTH, 2)
        self.place = nn.Parameter(torch.randn(ROW, WIDTH) / 2)
        self.norm1, self.norm2 = Over(*self.axes1), Over(*self.axes2)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.register_buffer("hidden", torch.ones(ROW, ROW).triu(self.ahead).bool())

    def forward(self, x: Tensor) -> Tensor:
        """Return two outputs at each of 16 positions."""
        x = self.into(x) + self.place
        h = self.norm1(x)
        x = x + self.used * self.attention(h, h, h, attn_mask=self.hidden, need_weights=False)[0]
        return self.out(x + self.mlp(self.norm2(x)))


def changed(**values: Any) -> type[Handed]:
    """Return the network with other values of its attributes."""
    return type("Changed", (Handed,), values)


MENDED: dict[str, Any] = {"ahead": 1, "axes1": (2,), "axes2": (2,)}


def network(f: Answer, seed: int = 0) -> nn.Module:
    """Return a new network of an answer, or raise for what is none."""
    torch.manual_seed(seed)
    net = f()
    if not isinstance(net, nn.Module):
        raise Broken(f"it returned a {type(net).__name__}, where an nn.Module was asked for")
    out = net.train()(torch.ones(3, ROW, 1))
    if not isinstance(out, Tensor) or out.shape != (3, ROW, 2):
        shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise Broken(f"for x of shape (3, 16, 1) the network returned {shape}, where (3, 16, 2) was asked for")
    return net


def taught(f: Answer, steps: int, seed: int = 0) -> nn.Module:
    """Return a network of an answer after some steps."""
    net, generator = network(f, seed), torch.Generator().manual_seed(seed)
    learned = [p for p in net.parameters() if p.requires_grad]
    if not learned:
        raise Unmet("the network has no parameter that can learn")
    adam = torch.optim.Adam(learned, RATE)
    rate = torch.optim.lr_scheduler.OneCycleLR(adam, RATE, total_steps=STEPS)
    with torch.enable_grad():
        for _ in range(steps):
            x, y = repeats(64, generator)
            loss = F.cross_entropy(net(x).mT, y)
            adam.zero_grad()
            loss.backward()
            adam.step()
            rate.step()
    return net


def modes(net: nn.Module) -> Iterator[tuple[nn.Module, int]]:
    """Yield the network in both modes, each with the first row of six and with the last one."""
    for training in (True, False):
        for row in (0, 5):
            yield net.train(training), row


def dependence(net: nn.Module) -> tuple[float, float]:
    """Return the largest gradients of all positions at later positions of their row, and in other rows."""
    x = (2.0 * torch.randint(2, (6, ROW, 1), generator=torch.Generator().manual_seed(3)) - 1).requires_grad_()
    later = others = 0.0
    for used, row in modes(net):
        with torch.enable_grad():
            outs = used(x)[row]
        for position, output in product(range(ROW), (0, 1)):
            (grad,) = torch.autograd.grad(outs[position, output], x, retain_graph=True, allow_unused=True)
            if grad is not None:
                later = max([later, *grad[row, position + 1 :].abs().flatten().tolist()])
                others = max(others, torch.cat([grad[:row], grad[row + 1 :]]).abs().max().item())
    return tuple(one if one > ROUNDING else 0.0 for one in (later, others))  # type: ignore[return-value]


@torch.no_grad()
def changes(net: nn.Module) -> tuple[float, float]:
    """Return how far an output moves if later flips of its row are turned, and if the other rows are."""
    x = 2.0 * torch.randint(2, (6, ROW, 1), generator=torch.Generator().manual_seed(4)) - 1
    later = others = 0.0
    for used, row in modes(net):
        before, strangers = output(used, x, row), -x
        strangers[row] = x[row]
        others = max(others, (output(used, strangers, row) - before).abs().max().item())
        for position in range(ROW - 1):
            turned = x.clone()
            turned[row, position + 1 :] *= -1
            later = max(later, (output(used, turned, row) - before)[: position + 1].abs().max().item())
    return later, others


def output(net: nn.Module, x: Tensor, row: int) -> Tensor:
    """Return the outputs for one row, with the same dropout each time."""
    torch.manual_seed(0)
    return net(x)[row]


def _is_a_network(f: Answer) -> None:
    network(f)


def _past_alone(f: Answer) -> None:
    for steps in (0, 10):
        net = taught(f, steps)
        if later := dependence(net)[0]:
            raise Unmet(f"after {steps} steps an output has a gradient of {later:.0e} at a later position")
        if (moved := changes(net)[0]) > CHANGE:
            raise Unmet(f"turning later flips moves an output by {moved:.0e}, though its gradient there is 0")


def _own_row(f: Answer) -> None:
    for steps in (0, 10):
        net = taught(f, steps)
        if others := dependence(net)[1]:
            raise Unmet(f"after {steps} steps the gradient in other rows is {others:.0e}")
        if (moved := changes(net)[1]) > CHANGE:
            raise Unmet(f"turning the flips of other rows moves an output by {moved:.0e}, though its gradient is 0")


@torch.no_grad()
def known(net: nn.Module) -> float:
    """Return the share that is right of the flips that the past tells, in evaluation mode."""
    x, y = repeats(256, torch.Generator().manual_seed(99))
    return (net.eval()(x).argmax(-1) == y)[:, 3:].float().mean().item()


def _learns(f: Answer) -> None:
    if not (share := known(taught(f, STEPS))) >= ASKED:
        raise Unmet(f"{share:.0%} of them are right")


def _observe(f: Answer) -> Any:
    """Return in words on what a new network depends, and what one learns in a few steps."""
    found = dependence(network(f))
    kinds = ["0" if one == 0 else "little" if one < 0.05 else "much" for one in found]
    share = known(taught(f, STEPS)) if found == (0, 0) else -1.0
    return [*kinds, [f"{one:.1e}" for one in found], "well" if share > 0.9 else "half" if share > 0.6 else "badly"]


def nothing() -> None:
    """Return no network."""


class Frozen(Handed):
    """Tight, and its attention does not learn."""

    ahead, axes1, axes2, used = 1, (2,), (2,), 0.0


MENDED_FORECAST = Exercise(
    reference=changed(**MENDED),
    observe=_observe,
    effort=15,  # it trains a network
    properties=(
        Property("it returns a network: (batch, 16, 1) to (batch, 16, 2)", _is_a_network, ()),
        Property("no output has a gradient at a later position", _past_alone),
        Property("no output has a gradient in another row", _own_row, (1,)),
        Property("after 300 steps the flips that can be known are right", _learns, ()),
    ),
    mistakes=(
        Mistake(Handed, "the network as it was handed over", "Which of its parts may see more than one position?"),
        Mistake(changed(ahead=1), "a mended mask between norms as they were", "Over which axes do the norms average?"),
        Mistake(
            changed(axes1=(2,), axes2=(2,)),
            "mended norms, and a mask that lets the next flip in",
            "The norms are right now. Print the mask: may position 0 attend to position 1?",
        ),
        Mistake(
            changed(ahead=1, axes1=(2,)),
            "one norm mended of two",
            "Look at the gradient in other rows: what averages over the batch?",
        ),
        Mistake(
            changed(ahead=1, axes2=(2,)),
            "the second norm mended, and the first as it was",
            "The other rows are out. Which norm still averages over positions?",
        ),
        Mistake(
            changed(ahead=1, axes1=(1,), axes2=(1,)),
            "norms over the positions of each channel",
            "That is the norm from the top of the lesson. Which axis belongs to one position alone?",
        ),
        Mistake(
            changed(ahead=1, axes1=(1, 2), axes2=(1, 2)),
            "norms over positions and channels",
            "Each position needs a mean and a spread of its own.",
        ),
        Mistake(Frozen, "a network without its mixer", "What can be known stands four places before."),
        Mistake(nothing, "a function without its `return`", "It returns the network, an nn.Module."),
    ),
    hints=(
        "Mend what you find first, then measure again. Which parts work on each position by itself?",
        "In `attn_mask` True means: not attended to. Print `torch.ones(4, 4).triu(2)`.",
    ),
)

EXERCISES = {"mended_forecast": MENDED_FORECAST}

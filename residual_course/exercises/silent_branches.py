"""Exercises on branches that are silent at the start: what gets no gradient, and a start from which all does."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet, close, draw
from residual_course.checking.seen import seen
from residual_edu import LayerScale, SimpleFeedForward

X, LABELS = draw(32, 64).float(), torch.arange(32) % 10


class Block(nn.Module):
    """x + gamma · f(x), as the lesson builds it."""

    def __init__(self) -> None:
        super().__init__()
        self.f, self.gate = SimpleFeedForward(64, 128), LayerScale(64)

    def forward(self, x: Tensor) -> Tensor:
        """Return x after the block."""
        return x + self.gate(self.f(x))


def start(gamma: float | None = None, last: float = 1, first: float = 1) -> Callable[[Any], None]:
    """Return a function that fills gamma, where a number is given, and multiplies f's layers."""

    def write(block: Any) -> None:
        with torch.no_grad():
            if gamma is not None:
                block.gate.gamma.fill_(gamma)
            for layer, factor in ((block.f.linear1, first), (block.f.linear2, last)):
                layer.weight *= factor
                layer.bias *= factor

    return write


# The names of what gets no gradient


def asleep(block: nn.Module, loss: Tensor) -> list[str]:
    """Return the names of the parameters whose gradient is 0 throughout."""
    loss.backward()
    return [name for name, p in block.named_parameters() if p.grad is not None and not p.grad.any()]


class Cancels(nn.Module):
    """Two parameters: of its square, the gradient of one is (1, -1), of the other (0, 0)."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Parameter(torch.tensor([0.5, 0])), nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        """Return a number with these gradients."""
        return self.one[0] - self.one[1] + 0 * self.two.sum()


def block_of(how: Callable[[Any], None]) -> nn.Module:
    """Return a block that starts so."""
    torch.manual_seed(4)
    how(block := Block())
    return block


CASES: dict[str, Callable[[], nn.Module]] = {
    "gamma 0 and a last layer of 0": lambda: block_of(start(0, last=0)),
    "gamma 0 alone": lambda: block_of(start(0)),
    "a last layer of 0 alone": lambda: block_of(start(last=0)),
    "no zeros": lambda: block_of(start()),
    "a gradient of (1, -1)": Cancels,
}


def names(f: Callable[..., Any], case: str) -> list[str]:
    """Return an answer's names, in order, or raise ``Unmet``."""
    with torch.enable_grad():
        found = f(block := CASES[case](), block(X[:2]).square().sum())
    if not isinstance(found, Iterable) or isinstance(found, str):
        raise Unmet(f"it returned {'None' if found is None else f'a {type(found).__name__}'}; return a list of names")
    given = list(found)
    if other := [one for one in given if not isinstance(one, str)]:
        raise Unmet(f"its list holds a {type(other[0]).__name__}; return names")
    return sorted(given)


def has(case: str) -> Property:
    """Return the property that a case has these names."""
    wanted = names(asleep, case)

    def test(f: Callable[..., Any]) -> None:
        if (got := names(f, case)) != wanted:
            raise Unmet(f"got {len(got)} names, {got}, where {len(wanted)} were asked for")

    return Property(f"{case}: the names", test)


def picks(rule: Callable[[nn.Parameter, Tensor], Any]) -> Callable[..., Any]:
    """Return an answer that keeps the names for which ``rule(parameter, gradient)`` is true."""

    def answer(block: nn.Module, loss: Tensor) -> list[str]:
        loss.backward()
        return [name for name, p in block.named_parameters() if p.grad is not None and rule(p, p.grad)]

    return answer


def said(f: Callable[..., Any]) -> Any:
    """Return what an answer makes of every case, in words."""
    return seen(*[lambda case=case: str(f(block := CASES[case](), block(X[:2]).square().sum())) for case in CASES])


ASLEEP = Exercise(
    reference=asleep,
    also_right=(
        picks(lambda p, g: g.abs().max() == 0),
        picks(lambda p, g: g.count_nonzero() == 0),
        picks(lambda p, g: (g == 0).all()),
        picks(lambda p, g: g.norm() == 0),
        lambda block, loss: tuple(asleep(block, loss)),
        lambda block, loss: set(asleep(block, loss)),
        lambda block, loss: (name for name in asleep(block, loss)),
    ),
    observe=said,
    properties=tuple(map(has, CASES)),
    mistakes=(
        Mistake(
            picks(lambda p, g: not p.any()),
            "the parameters that are 0 themselves",
            "Ask for the gradient: `p.grad`.",
        ),
        Mistake(picks(lambda p, g: g.any()), "the parameters that do get a gradient", "Return the others."),
        Mistake(
            picks(lambda p, g: not g.all()),
            "gradients in which some number is 0",
            "Look for those in which all numbers are 0: `not p.grad.any()`.",
        ),
        Mistake(
            picks(lambda p, g: g.sum() == 0),
            "gradients whose sum is 0",
            "1 and -1 cancel in a sum; ask whether any number is not 0.",
        ),
        Mistake(
            lambda block, loss: loss.backward() or [n for n, p in block.named_parameters() if p.grad is None],
            "gradients that are missing",
            "After `backward()` they are there, and full of zeros.",
        ),
        Mistake(lambda block, loss: len(asleep(block, loss)), "their number", "Return the names themselves."),
        Mistake(
            lambda block, loss: loss.backward() or [not p.grad.any() for p in block.parameters()],
            "True or False for each parameter",
            "Keep the names for which it is True.",
        ),
        Mistake(
            lambda block, loss: [name.rpartition(".")[2] for name in asleep(block, loss)],
            "the last parts of the names",
            "Return the names as `named_parameters()` yields them.",
        ),
    ),
    hints=(
        "`block.named_parameters()` yields names and parameters, and a parameter's gradient is its `.grad`.",
        "`p.grad.any()` is true if some number of the gradient is not 0. Keep the names for which it is not.",
    ),
)

# A start from which all of a block learns


def started(f: Callable[[Any], Any]) -> nn.Sequential:
    """Return four blocks that ``f`` has started, and a last layer; or raise where they are no longer such blocks."""
    torch.manual_seed(6)
    net = nn.Sequential(*[Block() for _ in range(4)], nn.Linear(64, 10))
    shapes = {name: p.shape for name, p in net[0].named_parameters()}
    for block in list(net)[:4]:
        f(block)
        after = dict(block.named_parameters())
        if {name: p.shape for name, p in after.items()} != shapes:
            raise Broken("the block no longer has the parameters that it had; set their values")
        if stopped := [name for name, p in after.items() if not p.requires_grad]:
            raise Unmet(f"`{stopped[0]}` does not learn any more; leave `requires_grad` as it is")
    return net


def returns_x(f: Callable[[Any], Any]) -> None:
    """Test that each block returns x, exactly."""
    for block in list(started(f))[:4]:
        with torch.no_grad():
            close(block(X), X, "at the start, the block's output", rtol=0)


def moved(f: Callable[[Any], Any]) -> list[str]:
    """Return the names of the parameters that five steps of Adam move in every block."""
    net = started(f)
    before = [[p.detach().clone() for p in block.parameters()] for block in list(net)[:4]]
    adam = torch.optim.Adam(net.parameters(), lr=0.001)
    with torch.enable_grad():
        for _ in range(5):
            adam.zero_grad()
            cross_entropy(net(X), LABELS).backward()
            adam.step()
    pairs = [zip(block.named_parameters(), old, strict=True) for block, old in zip(net, before, strict=False)]
    every = [{name for (name, now), was in pair if not now.equal(was)} for pair in pairs]
    return sorted(set.intersection(*every))


def all_move(f: Callable[[Any], Any]) -> None:
    """Test that all parameters move."""
    names = [name for name, _ in Block().named_parameters()]
    if still := [name for name in names if name not in moved(f)]:
        raise Unmet(f"after five steps {', '.join(f'`{name}`' for name in still)} had not moved")


def told(f: Callable[[Any], Any]) -> Any:
    """Return whether the first block returns x, what moves, and the sizes of the parameters at the start."""
    block = started(f)[0]
    with torch.no_grad():
        sizes = [float(f"{p.abs().mean().item():.2g}") for p in block.parameters()]
        return block(X).equal(X), moved(f), sizes


def frozen(block: Any) -> None:
    """Stop gamma at 0."""
    nn.init.zeros_(block.gate.gamma).requires_grad_(False)


def without_gate(block: Any) -> None:
    """Take the gate away, and silence the last layer."""
    start(last=0)(block)
    block.gate = nn.Identity()


def weight_alone(block: Any) -> None:
    """Silence the weight of the last layer, and not its bias."""
    nn.init.zeros_(block.f.linear2.weight)


def renewed(block: Any) -> None:
    """Replace gamma by a parameter of zeros."""
    block.gate.gamma = nn.Parameter(torch.zeros(64))


MENDED_START = Exercise(
    reference=start(0),
    also_right=(
        start(last=0),
        start(1, last=0),
        start(-0.1, last=0),
        start(0, last=3),
        start(1e-12),
        renewed,
        lambda block: block.gate.gamma.data.zero_(),
        lambda block: (nn.init.zeros_(block.f.linear2.weight), nn.init.zeros_(block.gate.gamma)),
    ),
    observe=told,
    properties=(
        Property("at the start each block returns x", returns_x),
        Property("all of its parameters move in five steps of Adam", all_move),
    ),
    mistakes=(
        Mistake(start(0, last=0), "the two zeros of the colleague", "Leave one of the two out."),
        Mistake(lambda block: None, "a block that was left as it came", "A gamma of 0.0001 is not 0: set one zero."),
        Mistake(start(1), "gamma at 1 and a branch that is drawn", "Let one factor of gamma · branch be 0."),
        Mistake(
            weight_alone,
            "a last layer that keeps its bias",
            "Set its bias to 0 too, or gamma.",
        ),
        Mistake(
            start(last=0, first=0),
            "two layers of 0 in a row",
            "Leave the first layer as it is: zeros in a row give each other no gradient.",
        ),
        Mistake(
            start(0, first=0),
            "a first layer of 0, behind which no weight gets a gradient",
            "Leave the first layer as it is.",
        ),
        Mistake(frozen, "a gamma of 0 that does not learn", "Leave out `requires_grad_(False)`."),
        Mistake(without_gate, "a block without its gate", "Keep the gate, and set values."),
    ),
    hints=(
        "Which product is 0 at the start, and how many of its factors have to be 0 for that?",
        "The other factor must not be 0, since it is what the gradient of the first one contains.",
    ),
)

EXERCISES = {"asleep": ASLEEP, "mended_start": MENDED_START}

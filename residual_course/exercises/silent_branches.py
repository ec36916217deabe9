"""Exercises on branches that are silent at the start: what gets no gradient, and a start from which all does."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet, close, draw
from residual_course.checking.seen import seen
from residual_course.checking.unmet import wrong_kind
from residual_edu import LayerScale, SimpleFeedForward

X, LABELS = draw(32, 64).float(), torch.arange(32) % 10


class _Block(nn.Module):
    """x + gamma · f(x), as the lesson builds it."""

    def __init__(self) -> None:
        super().__init__()
        self.f, self.gate = SimpleFeedForward(64, 128), LayerScale(64)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.gate(self.f(x))


def start(gamma: float | None = None, last: float = 1) -> Callable[[Any], None]:
    """Return a function that fills gamma, where a number is given, and multiplies f's last layer."""

    @torch.no_grad()
    def write(block: Any) -> None:
        if gamma is not None:
            block.gate.gamma.fill_(gamma)
        block.f.linear2.weight *= last
        block.f.linear2.bias *= last

    return write


# The names of what gets no gradient


class _Two(nn.Module):
    """Two parameters: the gradient of the squared output is (a, b) for one of them, and (0, 0) for the other."""

    def __init__(self, a: float, b: float) -> None:
        super().__init__()
        self.one, self.two = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
        self.a, self.b = a, b

    def forward(self, x: Tensor) -> Tensor:
        return 0.5 + self.a * (self.one[0] - 1) + self.b * (self.one[1] - 1) + 0 * self.two.sum()


def _block(how: Callable[[Any], None]) -> nn.Module:
    torch.manual_seed(4)
    how(block := _Block())
    return block


CASES: dict[str, Callable[[], nn.Module]] = {
    "gamma 0 and a last layer of 0": lambda: _block(start(0, last=0)),
    "gamma 0 alone": lambda: _block(start(0)),
    "a last layer of 0 alone": lambda: _block(start(last=0)),
    "no zeros": lambda: _block(start()),
    "a gradient of (1, -1)": lambda: _Two(1, -1),
    "a gradient of (0, -0.000001)": lambda: _Two(0, -1e-6),
}


def _answered(f: Callable[..., Any], case: str) -> Any:
    with torch.enable_grad():
        return f(block := CASES[case](), block(X[:2]).square().sum())


def _names(f: Callable[..., Any], case: str) -> list[str]:
    found = _answered(f, case)
    if not isinstance(found, Iterable) or isinstance(found, str):
        raise wrong_kind("it returned", found, "a list of names was asked for")
    given = list(found)
    if other := [one for one in given if not isinstance(one, str)]:
        raise wrong_kind("its list holds", other[0], "names were asked for")
    return sorted(given)


def picks(rule: Callable[[nn.Parameter, Any], Any]) -> Callable[..., Any]:
    """Return an answer that keeps the names for which ``rule(parameter, gradient)`` is true."""

    def answer(block: nn.Module, loss: Tensor) -> list[str]:
        loss.backward()
        return [name for name, p in block.named_parameters() if rule(p, p.grad)]

    return answer


asleep = picks(lambda p, g: not g.any())


def has(case: str) -> Property:
    """Return the property that a case has these names."""

    def test(f: Callable[..., Any]) -> None:
        if (got := _names(f, case)) != (wanted := _names(asleep, case)):
            raise Unmet(f"got {len(got)} names, {got}, where {len(wanted)} were asked for")

    return Property(f"{case}: the names", test)


ASLEEP = Exercise(
    reference=asleep,
    observe=lambda f: seen(*[lambda case=case: str(_answered(f, case)) for case in CASES]),
    properties=tuple(map(has, CASES)),
    mistakes=(
        Mistake(
            picks(lambda p, g: not p.any()), "the parameters that are 0 themselves", "Ask for the gradient: `p.grad`."
        ),
        Mistake(
            picks(lambda p, g: g.sum() == 0),
            "gradients whose sum is 0",
            "1 and -1 cancel in a sum; ask whether any number is not 0.",
        ),
        Mistake(
            picks(lambda p, g: g is None),
            "gradients that are missing",
            "After `backward()` they are there, and full of zeros.",
        ),
    ),
    hints=(
        "`block.named_parameters()` yields names and parameters, and a parameter's gradient is its `.grad`.",
        "`p.grad.any()` is true if some number of the gradient is not 0. Keep the names for which it is not.",
    ),
)

# A start from which all of a block learns


def _started(f: Callable[[Any], Any]) -> list[nn.Module]:
    """Return four blocks that ``f`` has started, or raise where they are no longer such blocks."""
    torch.manual_seed(6)
    blocks: list[nn.Module] = [_Block() for _ in range(4)]
    shapes = {name: p.shape for name, p in blocks[0].named_parameters()}
    for block in blocks:
        f(block)
        after = dict(block.named_parameters())
        if {name: p.shape for name, p in after.items()} != shapes:
            raise Broken("the block no longer has the parameters that it had; set their values")
        if stopped := [name for name, p in after.items() if not p.requires_grad]:
            raise Unmet(f"`{stopped[0]}` does not learn any more; leave `requires_grad` as it is")
    return blocks


@torch.no_grad()
def _returns_x(f: Callable[[Any], Any]) -> None:
    for block in _started(f):
        close(block(X), X, "at the start, the block's output", rtol=0)


def _still(f: Callable[[Any], Any]) -> list[str]:
    """Return the names of the parameters that five steps of Adam leave as they are, in some block."""
    net = nn.Sequential(*(blocks := _started(f)), nn.Linear(64, 10))
    before = [p.detach().clone() for p in net.parameters()]
    adam = torch.optim.Adam(net.parameters(), lr=0.001)
    with torch.enable_grad():
        for _ in range(5):
            adam.zero_grad()
            cross_entropy(net(X), LABELS).backward()
            adam.step()
    kept = {name[2:] for (name, p), old in zip(net.named_parameters(), before, strict=True) if p.equal(old)}
    return [name for name, _ in blocks[0].named_parameters() if name in kept]


def _all_move(f: Callable[[Any], Any]) -> None:
    if names := _still(f):
        raise Unmet(f"after five steps {', '.join(f'`{name}`' for name in names)} had not moved")


MENDED_START = Exercise(
    reference=start(0),
    observe=lambda f: [_still(f), *_started(f)[0].parameters()],
    properties=(
        Property("at the start each block returns x", _returns_x),
        Property("all of its parameters move in five steps of Adam", _all_move),
    ),
    mistakes=(
        Mistake(start(0, last=0), "the two zeros of the colleague", "Leave one of the two out."),
        Mistake(start(), "a block that was left as it came", "A gamma of 0.0001 is not 0: set one zero."),
        Mistake(
            lambda block: nn.init.zeros_(block.f.linear2.weight),
            "a last layer that keeps its bias",
            "Set its bias to 0 too, or gamma.",
        ),
    ),
    hints=(
        "Which product is 0 at the start, and how many of its factors have to be 0 for that?",
        "The other factor must not be 0, since it is what the gradient of the first one contains.",
    ),
)

EXERCISES = {"asleep": ASLEEP, "mended_start": MENDED_START}

"""Exercises on the skip: a block that adds its input, a test that finds a lost skip, and a block that lost it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet, close, draw, gradients, run
from residual_course.checking.gradients import all_learn
from residual_edu import LayerNormalization, SimpleFeedForward

Forward = Callable[[Any, Tensor], Tensor]

X = draw(3, 64).float()


def silence(block: Any) -> Any:
    """Set the last layer to 0."""
    nn.init.zeros_(block.linear2.weight), nn.init.zeros_(block.linear2.bias)
    return block


def comes_through(block: Any) -> None:
    """Test that a silent block returns x, and its gradient."""
    close(run(block, X, like=X), X)
    close(gradients(block, X, like=X)[0], gradients(lambda x: x.clone(), X)[0], "the gradient that reaches x")


# x + f(x), of a block f


def _plain(block: Any, x: Tensor) -> Tensor:
    return SimpleFeedForward.forward(block, x)


def _adding(forward: Forward) -> type[nn.Module]:
    return type("Block", (SimpleFeedForward,), {"forward": forward})


def summed(f: Any, silent: bool = False) -> Tensor:
    """Return what a block of the class ``f``, drawn or with a silent last layer, makes of ``X``."""
    torch.manual_seed(3)
    block = f(64, 128)
    return run(silence(block) if silent else block, X, like=X)


def _adds(f: Any) -> None:
    close(summed(f), X + summed(SimpleFeedForward))
    all_learn(f(64, 128), X)


SUM_BLOCK = Exercise(
    reference=_adding(lambda self, x: x + _plain(self, x)),
    observe=lambda f: (summed(f), summed(f, silent=True)),
    properties=(
        Property("with a last layer of 0 the block returns x", lambda f: comes_through(silence(f(64, 128)))),
        Property("else it returns x plus the plain block's output", _adds),
    ),
    mistakes=(
        Mistake(_adding(_plain), "the plain block", "Add x to what the plain block returns."),
        Mistake(
            _adding(lambda self, x: 2 * _plain(self, x)),
            "the output of the plain block, added to itself",
            "Keep the name x for the input, and add that.",
        ),
        Mistake(
            _adding(lambda self, x: torch.relu(x + _plain(self, x))), "a ReLU after the sum", "Return the sum itself."
        ),
    ),
    hints=("What must come out if the plain block returns 0?", "Call the plain block once, and add its input to it."),
)

# The test: silence the branch, and ask for x


class Parts(nn.Module):
    """The parts of the handed block."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.dropout = LayerNormalization(64), nn.Dropout(0.1)
        self.linear1, self.linear2 = nn.Linear(64, 128), nn.Linear(128, 64)


def block_of(forward: Forward) -> type[nn.Module]:
    """Return the handed block with this ``forward``."""
    return type("Block", (Parts,), {"forward": forward})


def branch(block: Any, x: Tensor) -> Tensor:
    """Return the branch of a block without its norm and its dropout."""
    return block.linear2(torch.relu(block.linear1(x)))


def _mended(block: Any, x: Tensor) -> Tensor:
    return x + block.dropout(branch(block, block.norm(x)))


def _handed(block: Any, x: Tensor) -> Tensor:
    x = branch(block, block.norm(x))
    return x + block.dropout(x)


def _in_place(block: Any, x: Tensor) -> Tensor:
    return x + block.dropout(branch(block, block.norm(x.relu_())))


def _near(block: Any, x: Tensor) -> Tensor:
    return 0.999999 * x + branch(block, x)


def _exchanged(block: Any, x: Tensor) -> Tensor:
    return x[[0, 2, 1]] + branch(block, x)


def verdict(f: Callable[..., Any], forward: Forward) -> bool:
    """Return what a test of ``keeps_x`` says of a block."""
    torch.manual_seed(0)
    found = f(block_of(forward)(), X.clone())
    if getattr(found, "ndim", 1) == 0:  # a tensor, or NumPy's
        found = found.item()
    if not isinstance(found, bool):
        raise Unmet(f"it returned a {type(found).__name__}, where True or False was asked for")
    return found


def says(forward: Forward, wanted: bool) -> Callable[[Callable[..., Any]], None]:
    """Return a property's test: this is what is said of such a block."""

    def test(f: Callable[..., Any]) -> None:
        if verdict(f, forward) != wanted:
            raise Unmet(f"it returned {not wanted}, where {wanted} was asked for")

    return test


def keeps_x(block: nn.Module, x: Tensor) -> bool:
    """Return whether a silent block returns x."""
    before = x.clone()
    return torch.equal(silence(block)(x), before)


def _half_silent(block: Any, x: Tensor) -> bool:
    nn.init.zeros_(block.linear2.weight)
    before = x.clone()
    return torch.equal(block(x), before)


KEEPS_X = Exercise(
    reference=keeps_x,
    observe=lambda f: [verdict(f, forward) for forward in (_mended, _handed, _in_place, _near)],
    properties=(
        Property("True for a block with a working skip", says(_mended, True)),
        Property("False for the handed block", says(_handed, False)),
        Property("False for a block that returns nearly x", says(_near, False)),
        Property("False for a block that exchanges two rows", says(_exchanged, False)),
        Property("False for a block that overwrites x before it adds it", says(_in_place, False)),
    ),
    mistakes=(
        Mistake(
            lambda block, x: torch.equal(silence(block)(x), x),
            "a comparison with x itself, which a block may have overwritten",
            "Copy x before the block is called, with x.clone().",
        ),
        Mistake(_half_silent, "a last layer that keeps its bias", "Set the bias to 0 too."),
        Mistake(
            lambda block, x: torch.allclose(silence(block)(x.clone()), x, atol=0.1),
            "a comparison that takes nearly x for x",
            "Compare exactly, with torch.equal.",
        ),
    ),
    hints=(
        "Which of weight and bias decides what linear2 returns?",
        "Copy x, set weight and bias to 0, call the block with x, and compare its output with the copy.",
    ),
)

# The mend


def parts_of(f: type[nn.Module]) -> nn.Module:
    """Return an answer's block without dropout."""
    torch.manual_seed(5)
    return f().eval()


def _adds_branch(f: type[nn.Module]) -> None:
    block = parts_of(f)
    close(run(block, X, like=X), _mended(block, X))
    all_learn(block, X)


def _drops(f: type[nn.Module]) -> None:
    dropped = (run(parts_of(f).train(), X, like=X) == X).float().mean().item()
    if not 0.02 < dropped < 0.3:
        raise Unmet(f"{dropped:.0%} of the branch's numbers were dropped, where about 10 % was asked for")


MENDED_SKIP = Exercise(
    reference=block_of(_mended),
    observe=lambda f: parts_of(f).train()(X.clone()),
    properties=(
        Property("with a silent branch x comes through", lambda f: comes_through(silence(parts_of(f)).train())),
        Property("the output is x plus the branch of norm(x)", _adds_branch),
        Property("dropout takes numbers of the branch", _drops),
    ),
    mistakes=(
        Mistake(
            block_of(_handed),
            "the block as it was handed over",
            "Keep the name x for the input; call the branch something else.",
        ),
        Mistake(
            block_of(lambda block, x: block.norm(x) + block.dropout(branch(block, block.norm(x)))),
            "a skip that carries norm(x)",
            "Add x as it came in.",
        ),
        Mistake(
            block_of(lambda block, x: block.dropout(x + branch(block, block.norm(x)))),
            "dropout on the sum",
            "Close dropout's bracket before you add x.",
        ),
    ),
    hints=(
        "What does the name x stand for in the line with the plus sign?",
        "Give what each step returns a name of its own, so that x stays the block's input.",
    ),
)

EXERCISES = {"sum_block": SUM_BLOCK, "keeps_x": KEEPS_X, "mended_skip": MENDED_SKIP}

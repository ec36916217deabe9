"""Exercises on the skip: a block that adds its input, a test that finds a lost skip, and a block that lost it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet, close, draw, run
from residual_edu import LayerNormalization, SimpleFeedForward

Forward = Callable[[Any, Tensor], Tensor]

X = draw(3, 64).float()


def block_of(base: type[nn.Module], forward: Forward) -> type[nn.Module]:
    """Return a class of blocks with this ``forward``."""
    return type("Block", (base,), {"forward": forward})


# x + f(x), of a block f


def plain(block: Any, x: Tensor) -> Tensor:
    """Return the plain block's output."""
    return SimpleFeedForward.forward(block, x)


def sum_block(f: Any, silent: bool = False) -> Any:
    """Return a block of the class ``f``, with drawn weights or a silent last layer."""
    torch.manual_seed(3)
    block = f(64, 128)
    if silent:
        nn.init.zeros_(block.linear2.weight), nn.init.zeros_(block.linear2.bias)
    return block


def summed(f: Any, silent: bool = False) -> Tensor:
    """Return what a block makes of ``X``."""
    return run(sum_block(f, silent), X.clone(), like=X)


def whole_sum(f: type[nn.Module]) -> None:
    """Test the sum of x and the plain block's output."""
    close(summed(f), X + plain(sum_block(SimpleFeedForward), X))


SUM_BLOCK = Exercise(
    reference=block_of(SimpleFeedForward, lambda self, x: x + plain(self, x)),
    observe=lambda f: (summed(f), summed(f, silent=True)),
    properties=(
        Property("with a last layer of 0 the block returns x", lambda f: close(summed(f, silent=True), X)),
        Property("else it returns x plus the plain block's output", whole_sum),
    ),
    mistakes=(
        Mistake(block_of(SimpleFeedForward, plain), "the plain block", "Add x to what the plain block returns."),
        Mistake(
            block_of(SimpleFeedForward, lambda self, x: x),
            "x alone",
            "Add what the plain block makes of x.",
        ),
        Mistake(
            block_of(SimpleFeedForward, lambda self, x: 2 * plain(self, x)),
            "the output of the plain block, added to itself",
            "Keep the name x for the input, and add that.",
        ),
        Mistake(
            block_of(SimpleFeedForward, lambda self, x: plain(self, x + plain(self, x))),
            "a sum that goes through the block once more",
            "Return the sum itself.",
        ),
        Mistake(
            block_of(SimpleFeedForward, lambda self, x: torch.relu(x + plain(self, x))),
            "a ReLU after the sum",
            "Return the sum itself.",
        ),
        Mistake(
            block_of(SimpleFeedForward, lambda self, x: x * plain(self, x)),
            "a product of x and the branch",
            "Add the two.",
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


def branch(block: Any, x: Tensor) -> Tensor:
    """Return the branch of a block without its norm and its dropout."""
    return block.linear2(torch.relu(block.linear1(x)))


def handed(block: Parts, x: Tensor) -> Tensor:
    """Add the branch to itself."""
    x = branch(block, block.norm(x))
    return x + block.dropout(x)


def mended(block: Any, x: Tensor) -> Tensor:
    """Return the pre-norm connection."""
    return x + block.dropout(branch(block, block.norm(x)))


def in_place(block: Parts, x: Tensor) -> Tensor:
    """Overwrite x by its ReLU, then add it."""
    return x + block.dropout(branch(block, block.norm(x.relu_())))


def near(block: Parts, x: Tensor) -> Tensor:
    """Return nearly x."""
    return 0.999 * x + branch(block, x)


def verdict(f: Callable[..., Any], forward: Forward) -> bool:
    """Return what a test of ``keeps_x`` says of a block."""
    torch.manual_seed(0)
    found = f(block_of(Parts, forward)(), X.clone())
    if isinstance(found, Tensor) and found.ndim == 0:
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


def silence(block: Any) -> Any:
    """Set the last layer to 0."""
    nn.init.zeros_(block.linear2.weight), nn.init.zeros_(block.linear2.bias)
    return block


def keeps_x(block: nn.Module, x: Tensor) -> bool:
    """Return whether a silent block returns x."""
    before = x.clone()
    return torch.equal(silence(block)(x), before)


def half_silent(block: Any, x: Tensor) -> bool:
    """Forget the bias."""
    nn.init.zeros_(block.linear2.weight)
    before = x.clone()
    return torch.equal(block(x), before)


KEEPS_X = Exercise(
    reference=keeps_x,
    observe=lambda f: [verdict(f, forward) for forward in (mended, handed, in_place, near)],
    properties=(
        Property("True for a block with a working skip", says(mended, True)),
        Property("False for the handed block", says(handed, False)),
        Property("False for a block that returns nearly x", says(near, False)),
        Property("False for a block that overwrites x before it adds it", says(in_place, False)),
    ),
    mistakes=(
        Mistake(
            lambda block, x: torch.equal(silence(block)(x), x),
            "a comparison with x itself, which a block may have overwritten",
            "Copy x before the block is called, with x.clone().",
        ),
        Mistake(half_silent, "a last layer that keeps its bias", "Set the bias to 0 too."),
        Mistake(
            lambda block, x: torch.allclose(silence(block)(x.clone()), x, atol=0.1),
            "a comparison that takes nearly x for x",
            "Compare exactly, with torch.equal.",
        ),
        Mistake(
            lambda block, x: not keeps_x(block, x),
            "the opposite: True where x is lost",
            "Return True where x comes out.",
        ),
        Mistake(lambda block, x: True, "True for every block", "Compare what comes out with the copy."),
        Mistake(
            lambda block, x: silence(block)(x),
            "the block's output, where True or False was asked for",
            "Compare it with the copy of x.",
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


def comes_through(f: type[nn.Module]) -> None:
    """Test the output of a silent branch, in training mode."""
    close(run(silence(parts_of(f)).train(), X.clone(), like=X), X, "with a silent branch, the output")


def whole(f: type[nn.Module]) -> None:
    """Test the output without dropout."""
    block = parts_of(f)
    close(run(block, X.clone(), like=X), mended(block, X))


def drops(f: type[nn.Module]) -> None:
    """Test that dropout takes numbers of the branch."""
    block = parts_of(f).train()
    dropped = (run(block, X.clone(), like=X) == X).float().mean().item()
    if not 0.02 < dropped < 0.3:
        raise Unmet(f"{dropped:.0%} of the branch's numbers were dropped, where about 10 % was asked for")


def observe_mend(f: type[nn.Module]) -> Any:
    """Return the outputs with and without a silent branch, and with dropout."""
    block = parts_of(f)
    with torch.no_grad():
        out = block(X.clone())
        torch.manual_seed(7)
        dropped = block.train()(X.clone())
        return out, dropped, silence(block)(X.clone())


def wrong(forward: Forward, looks_like: str, next_step: str) -> Mistake:
    """Return a mistake in ``forward``."""
    return Mistake(block_of(Parts, forward), looks_like, next_step)


MENDED_SKIP = Exercise(
    reference=block_of(Parts, mended),
    observe=observe_mend,
    properties=(
        Property("with a silent branch x comes through", comes_through),
        Property("the output is x plus the branch of norm(x)", whole),
        Property("dropout takes numbers of the branch", drops),
    ),
    mistakes=(
        wrong(
            handed, "the block as it was handed over", "Keep the name x for the input; call the branch something else."
        ),
        wrong(
            lambda block, x: block.norm(x) + block.dropout(branch(block, block.norm(x))),
            "a skip that carries norm(x)",
            "Add x as it came in.",
        ),
        wrong(
            lambda block, x: block.dropout(x + branch(block, block.norm(x))),
            "dropout on the sum",
            "Close dropout's bracket before you add x.",
        ),
        wrong(
            lambda block, x: x + block.dropout(branch(block, x)),
            "a branch without its norm",
            "Give linear1 norm(x).",
        ),
        wrong(
            lambda block, x: x + branch(block, block.norm(x)),
            "a branch without its dropout",
            "Send the branch through dropout before you add it.",
        ),
        wrong(
            lambda block, x: block.dropout(branch(block, block.norm(x))),
            "the branch alone",
            "Add x, as it came in.",
        ),
        wrong(
            lambda block, x: x + block.dropout(block.linear2(block.linear1(block.norm(x)))),
            "a branch without its ReLU",
            "Keep the ReLU between the two layers.",
        ),
    ),
    hints=(
        "What does the name x stand for in the line with the plus sign?",
        "Give what each step returns a name of its own, so that x stays the block's input.",
    ),
)

EXERCISES = {"sum_block": SUM_BLOCK, "keeps_x": KEEPS_X, "mended_skip": MENDED_SKIP}

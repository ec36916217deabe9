"""Exercise on the residual block: its three lines."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from residual_course.checking.exercise import (
    Exercise,
    Mistake,
    Property,
    Unmet,
    close,
    draw,
    run,
    same_gradients,
    unchanged,
)
from residual_course.exercises.block_made import Listener, Mixer, block
from residual_edu.blocks import ResidualBlock

Forward = Callable[[Any, Tensor, Tensor | None], Tensor]
Line = Callable[[Any, Tensor, Tensor | None], Tensor]
ORDER = ("sequence_mixer", "condition_mixer", "mlp")


def residual(name: str, norm: str) -> Line:
    """Return the line of one branch; it is right if ``norm`` names the branch's norm."""

    def line(block: Any, x: Tensor, condition: Tensor | None) -> Tensor:
        layer = getattr(block, name)
        if isinstance(layer, nn.Identity):
            return x
        normed = getattr(block, norm)(x) if norm else x
        return x + block.dropout(call(layer, normed, condition))

    return line


def call(layer: Any, x: Tensor, condition: Tensor | None) -> Tensor:
    """Call a layer, with the condition if it takes one."""
    return layer(x, condition) if isinstance(layer, Listener) else layer(x)


MIXER = residual("sequence_mixer", "input_norm")
CROSS = residual("condition_mixer", "condition_mixer_norm")
MLP = residual("mlp", "mlp_norm")


def lines(*each: Line) -> Forward:
    """Return the forward that runs these lines in order."""

    def forward(block: Any, x: Tensor, condition: Tensor | None) -> Tensor:
        for line in each:
            x = line(block, x, condition)
        return x

    return forward


def last(line: Callable[[Any, Tensor], Tensor]) -> Forward:
    """Return a forward whose MLP line is another, where there is an MLP."""
    return lines(MIXER, CROSS, lambda b, x, c: x if isinstance(b.mlp, nn.Identity) else line(b, x))


def side_by_side(block: Any, x: Tensor, condition: Tensor | None) -> Tensor:
    """Give all branches the block's input."""
    return x + sum((line(block, x, condition) - x for line in (MIXER, CROSS, MLP)), torch.zeros_like(x))


def without_bypass(block: Any, x: Tensor, condition: Tensor | None) -> Tensor:
    """Run every branch, also one that is an Identity."""
    x = x + block.dropout(block.sequence_mixer(block.input_norm(x)))
    x = x + block.dropout(block.condition_mixer(block.condition_mixer_norm(x), condition))
    return x + block.dropout(block.mlp(block.mlp_norm(x)))


RIGHT = lines(MIXER, CROSS, MLP)


def compare(f: Any, *there: str, rate: float = 0.0, with_condition: bool = True) -> None:
    """Test an answer against the library's block with the branches that are ``there``."""
    made, x, condition = block(*there, rate=rate), draw(2, 3, 4), draw(2, 4, seed=1) if with_condition else None
    with unchanged(block=made):
        got = run(lambda v: f(made, v, condition), x, like=x)
    close(got, made(x, condition))


def _each_alone(f: Any) -> None:
    for name in ORDER:
        compare(f, name, with_condition=name == "condition_mixer")


def _all_three(f: Any) -> None:
    compare(f, *ORDER)
    compare(f, *ORDER, rate=0.5)


def _needs_condition(f: Any) -> None:
    made = block("condition_mixer")
    try:
        f(made, draw(2, 3, 4), None)
    except Exception:
        return
    raise Unmet(
        "it left the condition mixer out because no condition was given; is_bypassed(layer) tells whether there is one"
    )


def bare() -> ResidualBlock:
    """Return a block whose one branch, the mixer, has no norm."""
    off = nn.Identity
    return ResidualBlock(Mixer, off, off, off, off, off, dropout_cfg=off)


def _without_norm(f: Any) -> None:
    made, x = bare().double(), draw(2, 3, 4)
    close(
        run(lambda v: f(made, v, None), x, like=x), made(x, None), "with a mixer whose norm is an Identity the output"
    )


def _evaluates(f: Any) -> None:
    made = block(*ORDER, rate=0.5)
    with torch.no_grad():
        compare(f, *ORDER, rate=0.5)
    made.eval()
    try:
        compare(f, *ORDER, rate=0.5)
    finally:
        made.train()


def _written(f: Any) -> None:
    def called(x: Tensor, condition: Tensor | None) -> Tensor:
        raise Unmet("it calls the block itself: write the lines that the block's forward is made of")

    made = block(*ORDER)
    made.forward = called  # type: ignore[method-assign]
    f(made, draw(2, 3, 4), draw(2, 4, seed=1))


def _bypassed(f: Any) -> None:
    x = draw(2, 3, 4)
    y = f(block(), x, None)
    if y is None:
        raise Unmet("it returned nothing, where x was asked for; is a `return` missing?")
    if y is not x:
        close(y, x, "without branches the output")
        raise Unmet("it returned another tensor than x")


def _left_out(f: Any) -> None:
    _bypassed(f)
    compare(f, "sequence_mixer", "mlp")
    compare(f, "sequence_mixer", "mlp", with_condition=False)


def _layer_decides(f: Any) -> None:
    _needs_condition(f)
    _without_norm(f)


def _gradients(f: Any) -> None:
    _evaluates(f)
    same_gradients(RIGHT, CASE, CASE | {"block": block("sequence_mixer", "mlp")})(f)


def observe(f: Any) -> Any:
    """Return an answer's output for blocks with four sets of branches; one set is empty."""
    seen: list[Any] = []
    patterns: Sequence[tuple[str, ...]] = [ORDER, ("sequence_mixer", "mlp"), ("condition_mixer",), ()]
    for there in patterns:
        condition = draw(2, 4, seed=1) if "condition_mixer" in there else None
        try:
            seen.append(f(block(*there, rate=0.5), draw(2, 3, 4), condition).detach())
        except (AttributeError, TypeError, ValueError) as error:
            seen.append(type(error).__name__)
    return seen


CASE: dict[str, Any] = {"block": block(*ORDER, rate=0.5), "x": draw(2, 3, 4), "condition": draw(2, 4, seed=1)}

BLOCK_FORWARD = Exercise(
    reference=RIGHT,
    observe=observe,
    properties=(
        Property("it is made of the block's parts", _written, ()),
        Property("each branch by itself; the condition mixer receives norm(x) and the condition", _each_alone),
        Property("all three, one after the other, with dropout on each branch", _all_three),
        Property("a branch that is left out adds nothing, and without branches the very same x is returned", _left_out),
        Property("a layer decides whether its branch is left out, not its norm and not the condition", _layer_decides),
        Property(
            "gradients reach x, the condition and every weight, in training and in evaluation", _gradients, hints=()
        ),
    ),
    mistakes=(
        Mistake(
            last(lambda b, x: b.dropout(b.mlp(b.mlp_norm(x)))),
            "a last line without its skip",
            "Every line begins with x + ...",
        ),
        Mistake(
            last(lambda b, x: b.mlp_norm(x) + b.dropout(b.mlp(b.mlp_norm(x)))),
            "an x that its own norm has overwritten",
            "Give norm(x) no name, or another one: the skip carries x.",
        ),
        Mistake(
            last(lambda b, x: x + b.dropout(b.sequence_mixer(b.mlp_norm(x)))),
            "a mixer where the MLP should be",
            "Read the last line once more, name by name.",
        ),
        Mistake(
            last(lambda b, x: b.dropout(x + b.mlp(b.mlp_norm(x)))),
            "dropout on the stream",
            "Close the bracket earlier: x + dropout(branch).",
        ),
        Mistake(
            without_bypass,
            "a block that runs its Identities, and so adds x to x",
            "Check `is_bypassed(layer)` first, and leave that line out.",
        ),
        Mistake(
            side_by_side,
            "three branches side by side",
            "Each line starts from what the line before it made of x.",
        ),
        Mistake(
            lines(CROSS, MIXER, MLP),
            "the condition mixer first",
            "Mix the positions first, then the condition, then the MLP.",
        ),
        Mistake(
            lines(MIXER, residual("condition_mixer", ""), MLP),
            "a condition mixer without its norm",
            "Give it `block.condition_mixer_norm(x)`.",
        ),
        Mistake(
            lambda block, x, condition: RIGHT(block, x, condition + 0),  # fails for None
            "a condition that is required though no branch takes it",
            "Only a condition mixer that is there needs it.",
        ),
        Mistake(
            lines(MIXER, MLP),
            "a block without its condition mixer",
            "There is a third branch: `block.condition_mixer(..., condition)`.",
        ),
    ),
    hints=(
        "Three lines, each x = x + dropout(layer(norm(x))). When should a line be left out?",
        "Ask `is_bypassed` of each layer, not of its norm and not of the condition. From the inside out: the branch's "
        "norm, the layer, the dropout, the sum.",
    ),
)

EXERCISES = {"block_forward": BLOCK_FORWARD}

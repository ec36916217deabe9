"""Exercise on the residual block: its three lines."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet, unchanged
from residual_course.checking.gradients import same_gradients
from residual_course.checking.properties import close, draw, run
from residual_edu.blocks import ResidualBlock
from residual_edu.parts import LayerNorm, is_bypassed

Forward = Callable[[Any, Tensor, Tensor | None], Tensor]
BRANCHES = {"sequence_mixer": "input_norm", "condition_mixer": "condition_mixer_norm", "mlp": "mlp_norm"}

# Blocks to hand to an answer: any of the three branches, each with weights, and a dropout that halves


class _Listener(nn.Linear):
    """A condition mixer: scale each channel of a sample by a map of the condition."""

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:  # type: ignore[override]
        return x * super().forward(condition)[:, None]


class _Off(nn.Identity):
    """An Identity that takes further inputs, so that a branch that calls it returns a number and no error."""

    def forward(self, x: Tensor, *_: Tensor | None) -> Tensor:
        return x


class _Halve(nn.Module):
    """Replaces dropout by a fixed factor, so that its place changes the result."""

    def forward(self, x: Tensor) -> Tensor:
        return x / 2


@cache
def block(*there: str, rate: float = 0.0, normed: bool = True) -> ResidualBlock:
    """Return a block in float64 with these branches, the same each time; with a ``rate`` its dropout halves."""

    def on(name: str, layer: Any) -> tuple[Any, Any]:
        return (layer if name in there else _Off), (lambda: LayerNorm(4)) if name in there and normed else nn.Identity

    made = ResidualBlock(
        *on("sequence_mixer", lambda: nn.Sequential(nn.Linear(4, 4), nn.Tanh())),
        *on("condition_mixer", lambda: _Listener(4, 4)),
        *on("mlp", lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))),
        dropout_cfg=_Halve if rate else nn.Identity,
    ).double()
    for seed, p in enumerate(made.parameters()):
        p.data = draw(*p.shape, seed=seed) / 2 + (p.ndim == 1) / 2
    return made


def forward(
    step: Callable[..., Tensor] = lambda block, x, normed, y: x + block.dropout(y),
    skips: Callable[[nn.Module], bool] = is_bypassed,
    side_by_side: bool = False,
) -> Forward:
    """Return a forward of three lines; ``step`` is what a line makes of x, of norm(x), and of its layer's output."""

    def answer(block: Any, x: Tensor, condition: Tensor | None) -> Tensor:
        first = x
        for name, norm in BRANCHES.items():
            layer = getattr(block, name)
            if not skips(layer):
                normed = getattr(block, norm)(first if side_by_side else x)
                x = step(block, x, normed, layer(*[normed, condition][: 1 + (name == "condition_mixer")]))
        return x

    return answer


RIGHT = forward()


def _compare(f: Any, *there: str, rate: float = 0.0, normed: bool = True, with_condition: bool = True) -> None:
    made, condition = block(*there, rate=rate, normed=normed), draw(2, 4, seed=1) if with_condition else None
    x = draw(2, 3, 4)
    with unchanged(block=made):
        got = run(lambda v: f(made, v, condition), x, like=x)
    close(got, made(x, condition), "the output" if normed else "with layers whose norms are Identities the output")


def _written(f: Any) -> None:
    def called(x: Tensor, condition: Tensor | None = None) -> Tensor:
        raise Unmet("it calls the block itself: write the lines that the block's forward is made of")

    made = block(*BRANCHES)
    made.forward = called  # type: ignore[method-assign]
    try:
        f(made, draw(2, 3, 4), draw(2, 4, seed=1))
    finally:
        del made.forward


def _each_alone(f: Any) -> None:
    for name in BRANCHES:
        _compare(f, name, with_condition=name == "condition_mixer")


def _all_three(f: Any) -> None:
    _compare(f, *BRANCHES)
    _compare(f, *BRANCHES, rate=0.5)


def _left_out(f: Any) -> None:
    x = draw(2, 3, 4)
    y = f(block(), x, None)
    if y is None:
        raise Unmet("it returned nothing, where x was asked for; is a `return` missing?")
    close(y, x, "without branches the output")
    for with_condition in (True, False):
        _compare(f, "sequence_mixer", "mlp", with_condition=with_condition)


def _layer_decides(f: Any) -> None:
    try:
        f(block("condition_mixer"), draw(2, 3, 4), None)
    except Exception:
        return _compare(f, *BRANCHES, normed=False)
    raise Unmet(
        "it left the condition mixer out because no condition was given; is_bypassed(layer) tells whether there is one"
    )


def _gradients(f: Any) -> None:
    made = block(*BRANCHES, rate=0.5).eval()
    try:
        with torch.no_grad():
            _compare(f, *BRANCHES, rate=0.5)
    finally:
        made.train()
    same_gradients(RIGHT, CASE, CASE | {"block": block("sequence_mixer", "mlp")})(f)


CASE: dict[str, Any] = {"block": block(*BRANCHES, rate=0.5), "x": draw(2, 3, 4), "condition": draw(2, 4, seed=1)}

BLOCK_FORWARD = Exercise(
    reference=RIGHT,
    observe=lambda f: [
        f(block(*there, rate=0.5), draw(2, 3, 4), draw(2, 4, seed=1)).detach()
        for there in (tuple(BRANCHES), ("sequence_mixer", "mlp"), ())
    ],
    properties=(
        Property("it is made of the block's parts", _written, ()),
        Property("each branch by itself; the condition mixer receives norm(x) and the condition", _each_alone),
        Property("all three, one after the other, with dropout on each branch", _all_three),
        Property("a branch that is left out adds nothing, and without branches x is returned", _left_out),
        Property("a layer decides whether its branch is left out, not its norm and not the condition", _layer_decides),
        Property(
            "gradients reach x, the condition and every weight, in training and in evaluation", _gradients, hints=()
        ),
    ),
    mistakes=(
        Mistake(
            forward(lambda block, x, normed, y: normed + block.dropout(y)),
            "an x that its own norm has overwritten",
            "Give norm(x) no name, or another one: the skip carries x.",
        ),
        Mistake(
            forward(lambda block, x, normed, y: block.dropout(x + y)),
            "dropout on the stream",
            "Close the bracket earlier: x + dropout(branch).",
        ),
        Mistake(
            forward(skips=lambda layer: False),
            "a block that runs its Identities, and so adds x to x",
            "Check `is_bypassed(layer)` first, and leave that line out.",
        ),
        Mistake(
            forward(side_by_side=True),
            "three branches side by side",
            "Each line starts from what the line before it made of x.",
        ),
    ),
    hints=(
        "Three lines, each x = x + dropout(layer(norm(x))). When should a line be left out?",
        "Ask `is_bypassed` of each layer, not of its norm and not of the condition. From the inside out: the branch's "
        "norm, the layer, the dropout, the sum.",
    ),
)

EXERCISES = {"block_forward": BLOCK_FORWARD}

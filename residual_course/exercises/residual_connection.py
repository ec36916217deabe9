"""Exercise on the residual connection: the same three parts in two orders."""

from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Part, Property, Unmet, close, draw, run, same_gradients

Connection = Callable[..., Tensor]

X = draw(2, 3, 4) + 1
PARTS: dict[str, Connection] = {
    "sublayer": Part(4),
    "norm": Part(4, 1),
    "dropout": lambda x: x * torch.tensor([1.0, 0.0, 1.0, 1.0], dtype=x.dtype) / 0.75,
}


def called(f: Connection, x: Tensor, **other: Connection) -> Tensor:
    """Return what a connection makes of x and copies of the parts, some of them exchanged for others."""
    return f(x, *(deepcopy(PARTS) | other).values())


def input_of(f: Connection, part: str) -> Tensor:
    """Return the input that a connection gives to one of its parts, which it must call once."""
    seen = list[Tensor]()

    def overheard(x: Tensor) -> Tensor:
        seen.append(x.clone())
        return PARTS[part](x)

    run(lambda x: called(f, x, **{part: overheard}), X)
    if len(seen) != 1:
        raise Unmet(f"it called `{part}` {len(seen)} times, where once was asked for")
    return seen[0]


def pre(x: Tensor, sublayer: Connection, norm: Connection, dropout: Connection) -> Tensor:
    """Return the pre-norm connection."""
    return x + dropout(sublayer(norm(x)))


def _inputs(f: Connection) -> None:
    for part in ("norm", "sublayer", "dropout"):
        close(input_of(f, part), input_of(pre, part), f"{part}'s input")


def _silent(f: Connection) -> None:
    close(
        run(lambda x: called(f, x, sublayer=lambda x: 0 * x), X, like=X),
        X,
        "with a sublayer that returns 0, the output",
    )


RESIDUAL_FORWARD = Exercise(
    reference=pre,
    observe=lambda f: run(lambda x: called(f, x), X),
    properties=(
        Property("each part's input is what the one before returned, the norm's is x", _inputs),
        Property("the output is x where the sublayer returns 0", _silent),
        Property("the output is the sum of the two, and gradients reach all", same_gradients(pre, {"x": X, **PARTS})),
    ),
    mistakes=(
        Mistake(
            lambda x, f, norm, drop: drop(f(norm(x))),
            "the branch alone, without the skip",
            "Add x itself to the branch's output.",
        ),
        Mistake(
            lambda x, f, norm, drop: norm(x) + drop(f(norm(x))),
            "a skip that carries norm(x)",
            "Keep the stream clean: add x as it came, not the normalised one.",
        ),
        Mistake(
            lambda x, f, norm, drop: drop(x + f(norm(x))),
            "dropout on the sum, so that x is dropped too",
            "Close dropout's bracket before the `x +`: the gate stands on the branch, not on the stream.",
        ),
        Mistake(
            lambda x, f, norm, drop: norm(x + drop(f(x))),
            "post-norm, the other order",
            "Move the norm inside the branch; nothing stands around the sum.",
        ),
    ),
    hints=(
        "Read the formula from the inside out: which part receives x first?",
        "Three calls, one inside the other, make the branch. Then one addition; x itself passes through none of them.",
    ),
)

EXERCISES = {"residual_forward": RESIDUAL_FORWARD}

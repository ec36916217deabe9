"""Exercise on the residual connection: the same three parts in two orders."""

from collections.abc import Callable

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Part, Property, Unmet, close, draw, run, same_gradients

Connection = Callable[..., Tensor]

X = draw(2, 3, 4) + 1
COINS = torch.tensor([1.0, 0.0, 1.0, 1.0], dtype=torch.float64) / 0.75

# The parts that an answer is given


def norm(x: Tensor) -> Tensor:
    """Centre each row and halve it, so that norming twice changes the result."""
    return 0.5 * (x - x.mean(-1, keepdim=True))


def sublayer(x: Tensor) -> Tensor:
    """Apply a nonlinearity, so that the order of the parts changes the result."""
    return 0.5 * x.square() + x + 1


def dropout(x: Tensor) -> Tensor:
    """Drop the second number of each row."""
    return x * COINS


def connected(f: Connection, branch: Callable[[Tensor], Tensor] = sublayer) -> Tensor:
    """Return a connection's output for ``X`` with these parts."""
    return run(lambda x: f(x, branch, norm, dropout), X, like=X)


def input_of(f: Connection, part: str) -> Tensor:
    """Return the input that a connection gives to one of its parts, which it must call once."""
    parts, seen = {"sublayer": sublayer, "norm": norm, "dropout": dropout}, list[Tensor]()
    real = parts[part]

    def overheard(x: Tensor) -> Tensor:
        seen.append(x.clone())
        return real(x)

    parts[part] = overheard
    run(lambda x: f(x, *parts.values()), X)
    if len(seen) != 1:
        raise Unmet(f"it called `{part}` {len(seen)} times, where once was asked for")
    return seen[0]


def pre(x: Tensor, sublayer: Connection, norm: Connection, dropout: Connection) -> Tensor:
    """Return the pre-norm connection."""
    return x + dropout(sublayer(norm(x)))


def _silent(f: Connection) -> None:
    close(connected(f, lambda x: 0 * x), X, "with a sublayer that returns 0, the output")


RESIDUAL_FORWARD = Exercise(
    reference=pre,
    observe=connected,
    properties=(
        Property("the norm's input is x", lambda f: close(input_of(f, "norm"), X, "the norm's input")),
        Property(
            "the sublayer's input is the normalised x",
            lambda f: close(input_of(f, "sublayer"), norm(X), "the sublayer's input"),
        ),
        Property(
            "the sublayer's output goes through dropout",
            lambda f: close(input_of(f, "dropout"), sublayer(norm(X)), "dropout's input"),
        ),
        Property("the output is x where the sublayer returns 0", _silent),
        Property(
            "the output is the sum of the two, and gradients reach all",
            same_gradients(pre, {"x": X, "sublayer": Part(4), "norm": Part(4, 1), "dropout": Part(4, 2)}),
        ),
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

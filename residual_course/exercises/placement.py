"""Exercise on the two placements of a norm: the pre-norm line and the post-norm line."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from residual_course.checking.exercise import (
    Exercise,
    Mistake,
    Part,
    Property,
    close,
    draw,
    gradients,
    run,
    same_gradients,
)

Map = Callable[[Tensor], Tensor]
Residual = Callable[..., Tensor]

X = 2 * draw(2, 3, 4) + 1


# The parts that an answer is given: a norm with a size of its own, and a branch that bends


def norm_with(gain: float) -> Map:
    """Return a norm that centres each row and scales it to a size of this norm's own."""
    return lambda x: gain * torch.nn.functional.layer_norm(x, x.shape[-1:])


def bend(strength: float) -> Map:
    """Return a branch."""
    return lambda x: strength * x.square() + x + 1


norm, branch = norm_with(0.7), bend(0.5)


def silent(x: Tensor) -> Tensor:
    """Return zeros."""
    return 0 * x


def residual(x: Tensor, f: Map, norm: Map, placement: str) -> Tensor:
    """Return x + f(norm(x)), or norm(x + f(x))."""
    return x + f(norm(x)) if placement == "pre" else norm(x + f(x))


def left(f: Residual, placement: str, by: Map = branch) -> Tensor:
    """Return what leaves an answer's block."""
    return run(lambda x: f(x, by, norm, placement), X, like=X)


def _line(placement: str) -> Callable[[Residual], None]:
    return lambda f: close(left(f, placement), residual(X, branch, norm, placement))


def lines(pre: Residual, post: Residual) -> Residual:
    """Return an answer of these two lines."""
    return lambda x, f, norm, placement: (pre if placement == "pre" else post)(x, f, norm)


def pre(x: Tensor, f: Map, norm: Map) -> Tensor:
    """Return the pre-norm line."""
    return x + f(norm(x))


def post(x: Tensor, f: Map, norm: Map) -> Tensor:
    """Return the post-norm line."""
    return norm(x + f(x))


LEARNED: list[dict[str, Any]] = [
    {"x": draw(2, 3, 4), "f": Part(4, 1), "norm": Part(4, 2), "placement": place} for place in ("pre", "post")
]
BETWEEN = "The norm's bracket goes around x, inside f, for pre-norm, and around the whole sum for post-norm."

TWO_PLACEMENTS = Exercise(
    reference=residual,
    observe=lambda f: [
        (left(f, place), gradients(lambda x, place=place: f(x, branch, norm, place), X)) for place in ("pre", "post")
    ],
    properties=(
        Property("pre-norm: the output is x where f returns 0", lambda f: close(left(f, "pre", silent), X)),
        Property("pre-norm: the output is the sum", _line("pre")),
        Property(
            "post-norm: the output is norm(x) where f returns 0", lambda f: close(left(f, "post", silent), norm(X))
        ),
        Property("post-norm: the output is the normalised sum", _line("post")),
        Property("the gradients of x, f and the norm", same_gradients(residual, *LEARNED), hints=()),
    ),
    mistakes=(
        Mistake(lines(post, pre), "the two lines exchanged", "Pre-norm is the one whose norm comes before f."),
        Mistake(lines(pre, pre), "the pre-norm line for both", "For post-norm take the norm of the sum."),
        Mistake(lines(post, post), "the post-norm line for both", "For pre-norm give the norm to f alone."),
        Mistake(
            lines(lambda x, f, norm: norm(x) + f(norm(x)), post),
            "a skip that carries norm(x)",
            "In pre-norm add x as it came; only f receives norm(x).",
        ),
        Mistake(
            lines(pre, lambda x, f, norm: norm(x + f(norm(x)))),
            "post-norm with a second norm before f",
            "In post-norm f receives x itself.",
        ),
        Mistake(
            lines(pre, lambda x, f, norm: x + norm(f(x))),
            "a norm on what f returns",
            "In post-norm the norm stands after the plus: the sum goes in.",
        ),
        Mistake(
            lines(lambda x, f, norm: f(norm(x)), lambda x, f, norm: norm(f(x))),
            "two branches without the skip",
            "Add x in both lines.",
        ),
        Mistake(
            lines(pre, lambda x, f, norm: norm(f(x)) + norm(x)),
            "two norms and then a sum",
            "Add first, then call the norm once.",
        ),
        Mistake(
            lines(lambda x, f, norm: x + norm(f(x)), post),
            "a norm on f's output, where it belongs before f",
            "In pre-norm f receives norm(x).",
        ),
    ),
    hints=(
        "Follow the blue line of the drawing: in which of the two does it pass through a norm?",
        BETWEEN,
    ),
)

EXERCISES = {"two_placements": TWO_PLACEMENTS}

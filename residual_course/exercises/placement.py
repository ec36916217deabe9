"""Exercise on the two placements of a norm: the pre-norm line and the post-norm line."""

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional as F

from residual_course.checking.exercise import Exercise, Mistake, Part, Property, draw, run, same_gradients

Map = Callable[[Tensor], Tensor]
Line = Callable[[Tensor, Map, Map], Tensor]
Residual = Callable[[Tensor, Map, Map, str], Tensor]

X = 2 * draw(2, 3, 4) + 1


def norm_with(gain: float) -> Map:
    """Return a norm that centres each row and scales it to a size of this norm's own."""
    return lambda x: gain * F.layer_norm(x, x.shape[-1:])


def bend(strength: float) -> Map:
    """Return a branch."""
    return lambda x: strength * x.square() + x + 1


def pre(x: Tensor, f: Map, norm: Map) -> Tensor:
    """Return the pre-norm line."""
    return x + f(norm(x))


def post(x: Tensor, f: Map, norm: Map) -> Tensor:
    """Return the post-norm line."""
    return norm(x + f(x))


def lines(pre: Line, post: Line) -> Residual:
    """Return an answer of these two lines."""
    return lambda x, f, norm, placement: (pre if placement == "pre" else post)(x, f, norm)


def left(f: Residual, placement: str) -> Tensor:
    """Return what leaves an answer's block."""
    return run(lambda x: f(x, bend(0.5), norm_with(0.7), placement), X, like=X)


residual = lines(pre, post)


def learned(placement: str) -> Callable[[Residual], None]:
    """Return the test of one line."""
    return same_gradients(residual, {"x": X, "f": Part(4, 1), "norm": Part(4, 2), "placement": placement})


TWO_PLACEMENTS = Exercise(
    reference=residual,
    observe=lambda f: [left(f, place) for place in ("pre", "post")],
    properties=(
        Property("pre-norm: the output is the sum, and gradients reach all", learned("pre")),
        Property("post-norm: the output is the normalised sum, and gradients reach all", learned("post")),
    ),
    mistakes=(
        Mistake(lines(post, pre), "the two lines exchanged", "Pre-norm is the one whose norm comes before f."),
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
    ),
    hints=(
        "Follow the blue line of the drawing: in which of the two does it pass through a norm?",
        "The norm's bracket goes around x, inside f, for pre-norm, and around the whole sum for post-norm.",
    ),
)

EXERCISES = {"two_placements": TWO_PLACEMENTS}

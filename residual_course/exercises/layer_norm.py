"""Exercise on LayerNorm: its forward pass."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from residual_course.checking.exercise import Exercise, Mistake, Property, close, draw, gradients, run, same_gradients

Forward = Callable[..., Tensor]

SHAPES = [(4,), (3, 5), (2, 3, 8)]


def centred(x: Tensor) -> Tensor:
    """Return each row without its mean."""
    return x - x.mean(-1, keepdim=True)


def spread(x: Tensor, eps: float) -> Tensor:
    """Return LayerNorm's divisor of each row."""
    return (x.var(-1, correction=0, keepdim=True) + eps).sqrt()


def by_hand(x: Tensor, eps: float = 1e-5) -> Tensor:
    """Return LayerNorm of the last axis from the formula."""
    return centred(x) / spread(x, eps)


def _agrees(f: Forward, x: Tensor, eps: float, what: str = "the output") -> None:
    want = layer_norm(x, x.shape[-1:], eps=eps)
    close(run(lambda x: f(x, eps=eps), x, like=want), want, what)


def _any_shape(f: Forward) -> None:
    for seed, shape in enumerate(SHAPES):
        _agrees(f, 3 * draw(*shape, seed=seed) + 2, 1e-12, f"the output for shape {shape}")


def _small_rows(f: Forward) -> None:
    for size in (1e-3, 1e-1, 0.0):
        _agrees(f, size * draw(3, 4) + 1, 1e-5, f"with eps = 1e-5, the output for rows of spread {size:g}")


def _eps_of_its_own(f: Forward) -> None:
    x = 1e-3 * draw(3, 4)
    close(run(f, x, like=x), by_hand(x), "without eps, for rows of spread 0.001, the output")
    _agrees(f, x, 1, "with eps = 1 the output")


FOUR, OBSERVED = torch.tensor([8.0, 2, 0, -6]).double(), 2 * draw(3, 5, seed=7) + 1
LEARNED = [{"x": size * draw(3, 5, seed=3) + 1, "eps": 1e-5} for size in (1, 1e-3)]

CENTER_AND_SCALE = Exercise(
    reference=by_hand,
    observe=lambda f: (run(f, OBSERVED), run(f, 1e-3 * OBSERVED), gradients(f, OBSERVED)),
    properties=(
        Property(
            "8, 2, 0, -6 come out as 1.4, 0.2, -0.2, -1.4",
            lambda f: _agrees(f, FOUR, 1e-12, "the output for [8, 2, 0, -6]"),
        ),
        Property("each row by itself, whatever the shape", _any_shape),
        Property("eps inside the root: small rows come out small", _small_rows),
        Property(
            "rows far from 0",
            lambda f: _agrees(f, draw(3, 4) + 1e6, 1e-5, "for rows near a million the output"),
            hints=(),
        ),
        Property("float32 stays float32", lambda f: _agrees(f, draw(2, 6).float(), 1e-5), hints=()),
        Property("eps is 1e-5 unless another is given", _eps_of_its_own),
        Property("gradients flow through mean and variance", same_gradients(by_hand, *LEARNED), hints=()),
    ),
    mistakes=(
        Mistake(
            lambda x, eps=1e-5: centred(x) / (x.var(-1, keepdim=True) + eps).sqrt(),
            "the variance divided by n - 1",
            "Use `correction=0`, or the mean of the squares: of 49, 1, 1, 49 it is 25.",
        ),
        Mistake(
            lambda x, eps=1e-5: centred(x) / (x.std(-1, correction=0, keepdim=True) + eps),
            "eps added to the standard deviation, outside the root",
            "Add eps to the variance first and take the root of the sum.",
        ),
        Mistake(
            lambda x, eps=1e-5: (x - x.mean()) / (x.var(correction=0) + eps).sqrt(),
            "one mean and one variance for all rows together",
            "Give `mean` its axis: `x.mean(dim=-1, keepdim=True)`.",
        ),
        Mistake(
            lambda x, eps=1e-5: (x - x.mean(-1)) / (x.var(-1, correction=0) + eps).sqrt(),
            "a mean whose axis is gone, so that it no longer lines up with its row",
            "Keep it: `x.mean(dim=-1, keepdim=True)`, and the same for the variance.",
        ),
    ),
    hints=(
        "Which axis is averaged? What must `keepdim` do so that the subtraction works for every row?",
        "Centre first. The variance is the mean of the squares of what you get, over the same axis. Where does eps go?",
    ),
)

EXERCISES = {"center_and_scale": CENTER_AND_SCALE}

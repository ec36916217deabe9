"""Exercise on LayerNorm's backward pass, from its formula."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from residual_course.checking.exercise import Exercise, Mistake, Property, close, draw, run
from residual_course.exercises.layer_norm import SHAPES, by_hand, spread

Backward = Callable[..., Tensor]


def _mean(x: Tensor) -> Tensor:
    return x.mean(-1, keepdim=True)


def pulled(formula: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Backward:
    """Return the backward pass ``formula(h, y, s)``: h = grad * weight, y normalised, s the divisor."""
    return lambda grad, x, weight, eps=1e-5: formula(grad * weight, by_hand(x, eps), spread(x, eps))


backward = pulled(lambda h, y, s: (h - _mean(h) - y * _mean(h * y)) / s)


def case(*shape: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Return an upstream gradient, an input and a gain."""
    return draw(*shape, seed=seed), 2 * draw(*shape, seed=seed + 10) + 1, 1 + draw(shape[-1], seed=seed + 20)


def agrees(f: Backward, *inputs: Tensor, what: str = "the gradient", eps: float | None = None) -> None:
    """Raise ``Unmet`` unless ``f`` agrees with autograd; without ``eps`` it is left out of the call."""
    grad, x, weight = inputs
    leaf = x.detach().requires_grad_()
    with torch.enable_grad():
        y = layer_norm(leaf, x.shape[-1:], weight, eps=1e-5 if eps is None else eps)
    (want,) = torch.autograd.grad(y, leaf, grad)
    more = [] if eps is None else [eps]
    close(run(lambda grad, x, weight: f(grad, x, weight, *more), *inputs, like=want), want, what)


def _one_row(f: Backward) -> None:
    grad, x, weight = case(4)
    agrees(f, grad, x, torch.ones_like(weight))


def _no_mean_left(f: Backward) -> None:
    gradient = run(f, *case(3, 5))
    close(gradient.sum(-1), torch.zeros(3), "the sum of a row of the gradient", rtol=1e-6)


def _any_shape(f: Backward) -> None:
    for seed, shape in enumerate(SHAPES):
        agrees(f, *case(*shape, seed=seed), what=f"the gradient for shape {shape}")


def _small_rows(f: Backward) -> None:
    grad, x, weight = case(3, 4)
    agrees(f, grad, 1e-3 * x, weight, what="the gradient for rows of spread 0.001")


def _other_eps(f: Backward) -> None:
    for eps in (1, 1e-12):
        agrees(f, *case(3, 4), what=f"with eps = {eps:g} the gradient", eps=eps)


LAYER_NORM_BACKWARD = Exercise(
    reference=backward,
    observe=lambda f: (run(f, *case(3, 5, seed=7)), run(f, *case(4, seed=8))),
    properties=(
        Property("one row, as autograd", _one_row),
        Property("each row of the gradient sums to 0", _no_mean_left),
        Property(
            "the weight multiplies first", lambda f: agrees(f, *case(4, seed=1), what="the gradient with a weight")
        ),
        Property("each row by itself, whatever the shape", _any_shape),
        Property("small rows, where eps counts", _small_rows),
        Property("another eps", _other_eps, hints=()),
        Property("float32 stays float32", lambda f: agrees(f, *(one.float() for one in case(2, 6))), hints=()),
    ),
    mistakes=(
        Mistake(
            pulled(lambda h, y, s: (h - y * _mean(h * y)) / s),
            "the backward pass of the scaling alone: the mean of the gradient is still in it",
            "Centring needs its share: subtract `g.mean(-1, keepdim=True)` too.",
        ),
        Mistake(
            pulled(lambda h, y, s: (h - _mean(h)) / s),
            "the backward pass of the centring alone, as if the spread were a constant",
            "The spread depends on x: take out the part along y as well.",
        ),
        Mistake(
            pulled(lambda h, y, s: h - _mean(h) - y * _mean(h * y)),
            "both parts taken out, but not divided by the spread",
            "Divide by sqrt(variance + eps) at the end.",
        ),
        Mistake(
            pulled(lambda h, y, s: (h - h.sum(-1, keepdim=True) - y * (h * y).sum(-1, keepdim=True)) / s),
            "sums, where means belong",
            "y has length sqrt(d), so its share is `y * (g * y).mean(-1, keepdim=True)`, a mean. So is the other.",
        ),
    ),
    hints=(
        "First write the gradient of the centred row as one expression in g, y and s. Then subtract its mean.",
        "The gradient of c has two terms, one for each use of c: in y, and in s. What comes back through the mean of x "
        "is their own mean; which of the two terms has one?",
    ),
)

EXERCISES = {"layer_norm_backward": LAYER_NORM_BACKWARD}

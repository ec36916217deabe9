"""Exercise on LayerNorm's backward pass, from its formula."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from residual_course.checking.exercise import Exercise, Mistake, Property, close, draw, run
from residual_course.exercises.layer_norm import SHAPES, by_hand, spread

Backward = Callable[..., Tensor]


def mean(x: Tensor) -> Tensor:
    """Return each row's mean, its axis kept."""
    return x.mean(-1, keepdim=True)


def pulled(formula: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Backward:
    """Return the backward pass ``formula(h, y, s)``: g = grad * weight, y normalised, s the divisor."""
    return lambda grad, x, weight, eps=1e-5: formula(grad * weight, by_hand(x, eps), spread(x, eps))


backward = pulled(lambda h, y, s: (h - mean(h) - y * mean(h * y)) / s)


def by_autograd(grad: Tensor, x: Tensor, weight: Tensor, eps: float = 1e-5) -> Tensor:
    """Return the gradient of LayerNorm's input from autograd."""
    leaf = x.detach().requires_grad_()
    with torch.enable_grad():
        return torch.autograd.grad(layer_norm(leaf, x.shape[-1:], weight, eps=eps), leaf, grad)[0]


def case(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    """Return an upstream gradient, an input and a gain."""
    grad, x = draw(*shape, seed=seed, dtype=dtype), 2 * draw(*shape, seed=seed + 10, dtype=dtype) + 1
    return grad, x, 1 + draw(shape[-1], seed=seed + 20, dtype=dtype)


def pulls_back(f: Backward, grad: Tensor, x: Tensor, weight: Tensor, what: str = "the gradient") -> None:
    """Raise ``Unmet`` unless ``f`` agrees with autograd."""
    want = by_autograd(grad, x, weight)
    close(run(f, grad, x, weight, like=want), want, what)


def _other_eps(f: Backward) -> None:
    inputs = case(3, 4)
    for eps in (1, 1e-12):
        want = by_autograd(*inputs, eps=eps)
        got = run(lambda grad, x, weight, eps=eps: f(grad, x, weight, eps), *inputs, like=want)
        close(got, want, f"with eps = {eps:g} the gradient")


def _one_row(f: Backward) -> None:
    grad, x, weight = case(4)
    pulls_back(f, grad, x, torch.ones_like(weight))


def _no_mean_left(f: Backward) -> None:
    gradient = run(f, *case(3, 5))
    close(gradient.sum(-1), torch.zeros(3), "the sum of a row of the gradient", rtol=1e-6)


def _gain(f: Backward) -> None:
    pulls_back(f, *case(4, seed=1), "the gradient with a weight")


def _any_shape(f: Backward) -> None:
    for seed, shape in enumerate(SHAPES):
        pulls_back(f, *case(*shape, seed=seed), f"the gradient for shape {shape}")


def _small_rows(f: Backward) -> None:
    grad, x, weight = case(3, 4)
    pulls_back(f, grad, 1e-3 * x, weight, "the gradient for rows of spread 0.001")


def _float32(f: Backward) -> None:
    pulls_back(f, *case(2, 6, dtype=torch.float32))


LAYER_NORM_BACKWARD = Exercise(
    reference=backward,
    also_right=(by_autograd,),
    observe=lambda f: (run(f, *case(3, 5, seed=7)), run(f, *case(4, seed=8))),
    properties=(
        Property("one row, as autograd", _one_row),
        Property("each row of the gradient sums to 0", _no_mean_left),
        Property("the weight multiplies first", _gain),
        Property("each row by itself, whatever the shape", _any_shape),
        Property("small rows, where eps counts", _small_rows),
        Property("another eps", _other_eps, hints=()),
        Property("float32 stays float32", _float32, hints=()),
    ),
    mistakes=(
        Mistake(
            pulled(lambda h, y, s: (h - y * mean(h * y)) / s),
            "the backward pass of the scaling alone: the mean of the gradient is still in it",
            "Centring needs its share: subtract `g.mean(-1, keepdim=True)` too.",
        ),
        Mistake(
            pulled(lambda h, y, s: (h - mean(h)) / s),
            "the backward pass of the centring alone, as if the spread were a constant",
            "The spread depends on x: take out the part along y as well.",
        ),
        Mistake(
            pulled(lambda h, y, s: h / s),
            "a plain division, as if mean and spread were constants",
            "Both depend on x: subtract the mean of g, and the part of g along y.",
        ),
        Mistake(
            pulled(lambda h, y, s: h - mean(h) - y * mean(h * y)),
            "both parts taken out, but not divided by the spread",
            "Divide by sqrt(variance + eps) at the end.",
        ),
        Mistake(
            pulled(lambda h, y, s: (h - mean(h) - y * mean(h * y)) / s**2),
            "a division by the variance",
            "Divide by its root, once.",
        ),
        Mistake(
            pulled(lambda h, y, s: (h - h.sum(-1, keepdim=True) - y * (h * y).sum(-1, keepdim=True)) / s),
            "sums, where means belong",
            "y has length sqrt(d), so its share is `y * (g * y).mean(-1, keepdim=True)`, a mean. So is the other.",
        ),
        Mistake(
            pulled(lambda h, y, s: (h - mean(h) + y * mean(h * y)) / s),
            "the part along y added, where it must go",
            "Subtract it.",
        ),
        Mistake(
            pulled(lambda h, y, s: (h - mean(h) - s * y * mean(h * s * y)) / s),
            "the centred row in the place of the normalised one",
            "Use y, the row after its division by the spread, in both places.",
        ),
        Mistake(
            pulled(lambda h, y, s: (h - h.mean(-1) - y * (h * y).mean(-1)) / s),
            "a mean whose axis is gone, so that it no longer lines up with its row",
            "Keep it: `g.mean(dim=-1, keepdim=True)`, and the same for every other mean.",
        ),
        Mistake(
            lambda grad, x, weight, eps=1e-5: backward(grad, x, torch.ones_like(weight), eps),
            "a gradient without the weight",
            "Start with `g = grad * weight`.",
        ),
        Mistake(
            lambda grad, x, weight, eps=1e-5: weight * backward(grad, x, torch.ones_like(weight), eps),
            "the weight applied last, as in the forward pass",
            "Backward, the order turns round: multiply `grad` by the weight first.",
        ),
    ),
    hints=(
        "First write the gradient of the centred row as one expression in g, y and s. Then subtract its mean.",
        "The gradient of c has two terms, one for each use of c: in y, and in s. What comes back through the mean of x "
        "is their own mean; which of the two terms has one?",
    ),
)

EXERCISES = {"layer_norm_backward": LAYER_NORM_BACKWARD}

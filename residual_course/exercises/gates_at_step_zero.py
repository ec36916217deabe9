"""Exercise on step 0: the two gradients of a gated branch by hand."""

from collections.abc import Callable

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet, close, draw, unchanged
from residual_course.checking.forbidden import without_autograd
from residual_course.checking.properties import tensor

Pair = tuple[Tensor, Tensor]
Backward = Callable[[Tensor, Tensor, Tensor], Pair]

# The gradients of gamma * branch: with respect to the branch, and to gamma.


def backward(upstream: Tensor, branch: Tensor, gamma: Tensor) -> Pair:
    """Return the gradients of the branch, (..., channels), and of gamma, (channels,)."""
    return upstream * gamma, (upstream * branch).flatten(0, -2).sum(0)


def asked(f: Backward, upstream: Tensor, branch: Tensor, gamma: Tensor) -> Pair:
    """Return an answer's two gradients for these three tensors, or raise ``Unmet``."""
    given = {"upstream": upstream.clone(), "branch": branch.clone(), "gamma": gamma.clone()}
    with unchanged(**given):
        pair = f(*given.values())
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise Unmet("it did not return two tensors, the branch's gradient and gamma's")
    return tensor(pair[0], "the first is"), tensor(pair[1], "the second is")


def _both(*shape: int, closed: bool = False) -> Callable[[Backward], None]:
    inputs = draw(*shape), draw(*shape, seed=1) + 1, draw(shape[-1], seed=2) * (not closed)

    def test(f: Backward) -> None:
        for got, want, name in zip(asked(f, *inputs), backward(*inputs), ("branch", "gate"), strict=True):
            close(got, want, f"for shape {shape} the gradient of the {name}")

    return test


UPSTREAM, BRANCH, GAMMA = torch.tensor([[1, 1, 1, -1], [3, -1, 0, 2], [0.1] * 4], dtype=torch.float64)
TOKEN = UPSTREAM[None], BRANCH[None], GAMMA


def _one_token(part: int) -> Callable[[Backward], None]:
    name = "the gradient of the " + ("branch", "gate")[part]
    return lambda f: close(asked(f, *TOKEN)[part], backward(*TOKEN)[part], name)


GATE_GRADIENTS = Exercise(
    reference=backward,
    observe=lambda f: asked(f, draw(2, 6, 4), draw(2, 6, 4, seed=1) + 1, draw(4, seed=2)),
    properties=(
        Property("the row of the text, with gates of 0.1: the gradient of the branch", _one_token(0)),
        Property("the row of the text, with gates of 0.1: the gradient of the gates", _one_token(1)),
        Property("a closed gate has a gradient, its branch has none", _both(3, 4, closed=True)),
        Property("many rows share one gate", _both(5, 4)),
        Property("any number of axes may stand before the channels", _both(2, 3, 2, 4)),
        Property(
            "it is computed by hand, without autograd", lambda f: without_autograd(lambda: asked(f, *TOKEN)), hints=()
        ),
    ),
    mistakes=(
        Mistake(
            lambda g, b, y: (g, backward(g, b, y)[1]),
            "a branch's gradient that the gate has not scaled",
            "What comes back through a product is multiplied by the other factor: by gamma.",
        ),
        Mistake(
            lambda g, b, y: backward(g, y * b, y),
            "a gate's gradient with gamma in it",
            "The derivative of gamma * branch by gamma is branch; no gamma is left.",
        ),
        Mistake(
            lambda g, b, y: (g * y, (g * b).flatten(0, -2).mean(0)),
            "an average over the rows",
            "Each row adds its share to the gradient: sum.",
        ),
        Mistake(
            lambda g, b, y: (g * y, (g * b).sum(0)),
            "a sum over the first axis alone",
            "Sum over all axes but the last: `.reshape(-1, len(gamma)).sum(0)`.",
        ),
    ),
    hints=(
        "A product has two factors, and each factor's gradient is scaled by the other one.",
        "One gamma serves all rows, so each row adds its share: over which axes must that be summed?",
    ),
)

EXERCISES = {"gate_gradients": GATE_GRADIENTS}

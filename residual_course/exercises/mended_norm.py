"""Exercises on a norm over the wrong axis: rows sent one by one, and the mend."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet, close, draw, run
from residual_course.checking.gradients import same_gradients

Net = Callable[[Tensor], Tensor]
Rows = Callable[[Net, Tensor], Any]
Norm = Callable[[Tensor], Tensor]

# Rows sent one by one

WEIGHT, X = draw(64, 10, seed=1) / 8, draw(5, 64, seed=2)


def apart(x: Tensor) -> Tensor:
    """Return scores that depend on each row alone."""
    return (x @ WEIGHT).tanh()


class _Net(nn.Module):
    """A network of such scores, that counts the rows of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.counts = nn.Parameter(WEIGHT, requires_grad=False), list[int]()

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim != 2 or x.shape[1] != 64:
            raise Broken(f"it sends shape {tuple(x.shape)} through the network, where (1, 64) was asked for")
        self.counts.append(len(x))
        return apart(x)


def _alone(net: Net, x: Tensor) -> Tensor:
    return torch.cat([net(x[i : i + 1]) for i in range(len(x))])


def answered(f: Rows) -> tuple[Tensor, list[int]]:
    """Return an answer's scores, and how many rows each of its calls of the network sends."""
    net = _Net()

    def called(x: Tensor) -> Any:
        found = f(net, x)
        return torch.stack(list(found)) if isinstance(found, list | tuple) else found

    return run(called, X, like=apart(X)), net.counts


def _one(f: Rows) -> None:
    if (most := max(answered(f)[1], default=0)) != 1:
        raise Unmet(f"it sends {most} rows at once, where 1 was asked for")


ONE_BY_ONE = Exercise(
    reference=_alone,
    observe=answered,
    properties=(
        Property("one row at a time", _one),
        Property("the scores of each row, in the order of x", lambda f: close(answered(f)[0], apart(X), "the scores")),
    ),
    mistakes=(
        Mistake(lambda net, x: net(x), "all rows sent at once", "Send `x[i : i + 1]`, for each i."),
        Mistake(
            lambda net, x: torch.cat([net(x[: i + 1])[-1:] for i in range(len(x))]),
            "each row together with those before it",
            "Begin the slice at i: `x[i : i + 1]`.",
        ),
        Mistake(
            lambda net, x: _alone(net, x).softmax(-1),
            "probabilities, where the scores were asked for",
            "Return what the network returns.",
        ),
    ),
    hints=(
        "A loop over the rows: how do you cut out one row so that it is still a batch?",
        "x[i : i + 1] has shape (1, 64). Collect what net returns in a list, and join it with torch.cat.",
    ),
)

# The mend


def over(axis: Any) -> Norm:
    """Return a norm whose mean and variance run over an axis."""

    def norm(x: Tensor) -> Tensor:
        variance, mean = torch.var_mean(x, dim=axis, correction=0, keepdim=True)
        return (x - mean) / (variance + 1e-5).sqrt()

    return norm


def _wanted(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:])


def normed(*shapes: tuple[int, ...], size: float = 1.0) -> Callable[[Norm], None]:
    """Return a property's test: the output for these shapes."""

    def test(f: Norm) -> None:
        for shape in shapes:
            x = 2 * size * draw(*shape, seed=len(shape)) + size
            close(run(f, x, like=x), _wanted(x), f"the output for shape {shape}")

    return test


MENDED_NORM = Exercise(
    reference=over(-1),
    observe=lambda f: [run(f, 2 * draw(*shape, seed=7) + 1) for shape in ((4,), (4, 4), (2, 4, 4))],
    properties=(
        Property("one row", normed((4,))),
        Property("a batch of rows, also of as many rows as features", normed((3, 4), (4, 4))),
        Property("batch, token and feature", normed((2, 3, 4), (2, 3, 5))),
        Property("small rows, where eps counts", normed((3, 4), size=1e-3)),
        Property("gradients reach x", same_gradients(_wanted, {"x": draw(3, 4, seed=5)}), hints=()),
    ),
    mistakes=(
        Mistake(over(0), "the norm as it was handed over", "The features are the last axis: `dim=-1`."),
        Mistake(
            lambda x: (x - x.mean(-1)) / (x.var(-1, correction=0) + 1e-5).sqrt(),
            "a mean whose axis is gone, so that it no longer lines up with its row",
            "Keep it: `keepdim=True`.",
        ),
        Mistake(
            lambda x: over(tuple(range(x.ndim)))(x),
            "one mean and one variance for all rows together",
            "Take the last axis alone: `dim=-1`.",
        ),
        Mistake(
            lambda x: over(min(1, x.ndim - 1))(x),
            "axis 1, which is that of the tokens in (batch, token, feature)",
            "Count from the end: `dim=-1`.",
        ),
    ),
    hints=(
        "Count axes from the end: the features are axis -1, whatever stands before.",
        "With dim=-1 the mean of a batch has one axis less, and no longer lines up. keepdim=True leaves it there.",
    ),
)

EXERCISES = {"one_by_one": ONE_BY_ONE, "mended_norm": MENDED_NORM}

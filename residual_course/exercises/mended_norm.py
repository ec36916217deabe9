"""Exercises on a norm over the wrong axis: rows sent one by one, and the mend."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from residual_course.checking.exercise import (
    Broken,
    Exercise,
    Mistake,
    Property,
    Unmet,
    close,
    draw,
    run,
    same_gradients,
)

Net = Callable[[Tensor], Tensor]
Rows = Callable[[Net, Tensor], Any]
Norm = Callable[[Tensor], Tensor]

# Rows sent one by one

WEIGHT, X = draw(4, 3, seed=1), draw(5, 4, seed=2)


def apart(x: Tensor) -> Tensor:
    """Return scores that depend on each row alone."""
    return (x @ WEIGHT).tanh()


def together(x: Tensor) -> Tensor:
    """Return scores that depend on the other rows, as a norm over axis 0 makes them."""
    return apart(x) + x.mean(0).square().sum() + 0.1 * len(x)


def alone(net: Net, x: Tensor) -> Tensor:
    """Return the scores of each row sent alone."""
    return torch.cat([net(x[i : i + 1]) for i in range(len(x))])


def sent(f: Rows, net: Net, what: str) -> None:
    """Test the scores, and that no row was sent without its axis."""
    close(answered(f, net), alone(net, X), what)


def answered(f: Rows, net: Net) -> Tensor:
    """Return what an answer returns for a network that refuses what is no batch."""

    def strict(x: Tensor) -> Tensor:
        if x.ndim != 2 or x.shape[1] != 4:
            raise Broken(f"it sends shape {tuple(x.shape)} through the network, where (1, 4) was asked for")
        return net(x)

    def called(x: Tensor) -> Any:
        found = f(strict, x)
        return torch.stack(list(found)) if isinstance(found, list | tuple) else found

    return run(called, X, like=apart(X))


def _one(f: Rows) -> None:
    shapes = []

    def net(x: Tensor) -> Tensor:
        shapes.append(len(x))
        return apart(x)

    answered(f, net)
    if set(shapes) != {1}:
        raise Unmet(f"it sends {max(shapes)} rows at once, where 1 was asked for")


ONE_BY_ONE = Exercise(
    reference=alone,
    also_right=(
        lambda net, x: torch.cat([net(row) for row in x.split(1)]),
        lambda net, x: torch.stack([net(row[None])[0] for row in x]),
        lambda net, x: torch.cat(list(map(net, x.unsqueeze(1)))),
        lambda net, x: torch.vstack([net(row.reshape(1, -1)) for row in x]),
        lambda net, x: [net(row.unsqueeze(0)).squeeze(0) for row in x],
        lambda net, x: torch.cat([net(row) for row in x.chunk(len(x))], dim=0),
    ),
    observe=lambda f: (answered(f, apart), answered(f, together)),
    properties=(
        Property("scores that depend on each row alone", lambda f: sent(f, apart, "the scores")),
        Property("scores that depend on what else is sent", lambda f: sent(f, together, "the scores")),
        Property("one row at a time", _one, hints=()),
    ),
    mistakes=(
        Mistake(lambda net, x: net(x), "all rows sent at once", "Send `x[i : i + 1]`, for each i."),
        Mistake(
            lambda net, x: torch.cat([net(pair) for pair in x.split(2)]),
            "two rows at a time",
            "Send one row each time.",
        ),
        Mistake(
            lambda net, x: torch.cat([net(row[None].expand(len(x), -1))[:1] for row in x]),
            "a batch of copies of each row",
            "Send a batch of one row, `x[i : i + 1]`.",
        ),
        Mistake(
            lambda net, x: torch.cat([net(x[:1]) for _ in x]),
            "the first row, again and again",
            "Let the row change: `x[i : i + 1]`.",
        ),
        Mistake(
            lambda net, x: torch.cat([net(x[: i + 1])[-1:] for i in range(len(x))]),
            "each row together with those before it",
            "Begin the slice at i: `x[i : i + 1]`.",
        ),
        Mistake(
            lambda net, x: torch.cat([net(x[i:])[:1] for i in range(len(x))]),
            "each row together with those after it",
            "End the slice at i + 1: `x[i : i + 1]`.",
        ),
        Mistake(lambda net, x: alone(net, x).flip(0), "the rows in the opposite order", "Keep the order of x."),
        Mistake(
            lambda net, x: alone(net, x) - net(x),
            "a difference, where the scores were asked for",
            "Return the scores themselves.",
        ),
        Mistake(
            lambda net, x: alone(net, x).softmax(-1),
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

SHAPES = (4,), (3, 4), (4, 4), (2, 3, 4)


def over(axis: Any, eps: float = 1e-5, correction: int = 0) -> Norm:
    """Return a norm whose mean and variance run over an axis."""

    def norm(x: Tensor) -> Tensor:
        variance, mean = torch.var_mean(x, dim=axis, correction=correction, keepdim=True)
        return (x - mean) / (variance + eps).sqrt()

    return norm


def handed(x: Tensor) -> Tensor:
    """Normalise over axis 0, as the norm that was handed over."""
    return over(0)(x)


def wanted(x: Tensor) -> Tensor:
    """Return torch's norm of the last axis."""
    return F.layer_norm(x, x.shape[-1:])


def normed(*shape: int, size: float = 1.0) -> Callable[[Norm], None]:
    """Return a property's test: the output for this shape."""
    x = 2 * size * draw(*shape, seed=len(shape)) + size

    def test(f: Norm) -> None:
        close(run(f, x, like=x), wanted(x), f"the output for shape {shape}")

    return test


MENDED_NORM = Exercise(
    reference=over(-1),
    also_right=(
        wanted,
        lambda x: F.layer_norm(x, (x.shape[-1],), eps=1e-5),
        lambda x: (x - x.mean(-1)[..., None]) / (x.var(-1, False)[..., None] + 1e-5) ** 0.5,
        lambda x: (x - x.mean(-1, True)) * (x.var(-1, correction=0, keepdim=True) + 1e-5).rsqrt(),
        lambda x: torch.stack([handed(row) for row in x.reshape(-1, x.shape[-1])]).view_as(x),
        lambda x: handed(x.movedim(-1, 0)).movedim(0, -1),
        lambda x: torch.nn.LayerNorm(x.shape[-1], elementwise_affine=False)(x),
    ),
    observe=lambda f: (
        [run(f, 2 * draw(*shape, seed=7) + 1) for shape in ((3, 4), (4, 4), (2, 3, 4))]
        + [run(f, 1e-3 * draw(3, 4, seed=8)), run(f, draw(4, seed=9))]
    ),
    properties=(
        Property("one row", normed(4)),
        Property("a batch of rows", normed(3, 4)),
        Property("as many rows as features", normed(4, 4)),
        Property("batch, token and feature", normed(2, 3, 4)),
        Property("small rows, where eps counts", normed(3, 4, size=1e-3)),
        Property("gradients reach x", same_gradients(wanted, {"x": draw(3, 4, seed=5)}), hints=()),
    ),
    mistakes=(
        Mistake(handed, "the norm as it was handed over", "The features are the last axis: `dim=-1`."),
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
        Mistake(over(-1, correction=1), "a variance divided by n - 1", "Keep `correction=0`."),
        Mistake(over(-1, eps=0.0), "a division without eps", "Keep `+ 1e-5` inside the root."),
        Mistake(
            lambda x: (x - x.mean(-1, keepdim=True)) / (x.var(0, correction=0, keepdim=True) + 1e-5).sqrt(),
            "a mean over the features, and still a variance over axis 0",
            "Both run over `dim=-1`.",
        ),
        Mistake(
            lambda x: (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-5),
            "a division by the variance, without the root",
            "Keep `.sqrt()`.",
        ),
    ),
    hints=(
        "Count axes from the end: the features are axis -1, whatever stands before.",
        "With dim=-1 the mean of a batch has one axis less, and no longer lines up. keepdim=True leaves it there.",
    ),
)

EXERCISES = {"one_by_one": ONE_BY_ONE, "mended_norm": MENDED_NORM}

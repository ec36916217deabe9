"""Exercise on what dropout adds to the squared loss of a linear unit, averaged over all masks."""

from collections.abc import Callable

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet, close, draw, run, same_gradients

Penalty = Callable[[Tensor, Tensor, float], Tensor]


def added(x: Tensor, w: Tensor, p: float) -> Tensor:
    """Return the variance of the unit's output, averaged over the rows."""
    return (x * w).square().sum(-1).mean() * p / (1 - p)


def adds(f: Penalty, rows: int, size: int, p: float) -> None:
    """Test one shape and rate, and the gradients."""
    x, w = draw(rows, size), draw(size, seed=1)
    what = f"for {rows} rows of {size} features and p = {p} the penalty"
    close(run(lambda x, w: f(x, w, p), x, w), added(x, w, p), what)


def anywhere(f: Penalty) -> None:
    """Test other sizes and rates."""
    for size, p in ((1, 0.9), (5, 0.1), (2, 0.0)):
        adds(f, 6, size, p)


def by_coins(f: Penalty) -> None:
    """Test it against 40,000 masks."""
    x, w, generator = draw(1, 3), draw(3, seed=1), torch.Generator().manual_seed(0)
    masks = (torch.rand(40_000, 3, generator=generator) >= 0.25) / 0.75
    measured = ((masks * x) @ w).var().item()
    got = float(run(lambda x, w: f(x, w, 0.25), x, w))
    if abs(got / measured - 1) > 0.05:
        raise Unmet(
            f"for one row at p = 0.25 it is {got:.3g}; over 40,000 masks the output's variance is {measured:.3g}"
        )


LEARNED = {"x": draw(4, 3), "w": draw(3, seed=1), "p": 0.3}

DROPOUT_PENALTY = Exercise(
    reference=added,
    also_right=(lambda x, w, p: p / (1 - p) * (x.square().mean(0) * w.square()).sum(),),
    observe=lambda f: [f(draw(4, 3), draw(3, seed=1), p) for p in (0.25, 0.6)],
    properties=(
        Property("it is the variance over 40,000 masks, for one row", by_coins),
        Property("p = 1/2", lambda f: adds(f, 1, 3, 0.5)),
        Property("it is averaged over the rows", lambda f: adds(f, 4, 3, 0.5), (2,)),
        Property("any rate and size will do", anywhere),
        Property("its gradients are right, for weights that are learned", same_gradients(added, LEARNED), ()),
    ),
    mistakes=(
        Mistake(
            lambda x, w, p: (x.square() * w).sum(-1).mean() * p / (1 - p),
            "a factor w where a variance takes its square",
            "The variance of 2 · x is how many times that of x?",
        ),
        Mistake(
            lambda x, w, p: w.square().sum() * p / (1 - p),
            "weight decay: the features are left out",
            "Which x's variance is meant? Law 1 has x² in it.",
        ),
        Mistake(
            lambda x, w, p: (x * w).square().sum(-1).mean() * p * (1 - p),
            "the variance of coins that are not scaled",
            "What stays is divided by 1 - p, and a variance by the square of that.",
        ),
        Mistake(
            lambda x, w, p: (x @ w).square().mean() * p / (1 - p),
            "one coin for the whole sum",
            "Each feature has its own coin: sum the variances, not the features.",
        ),
        Mistake(
            lambda x, w, p: (x * w).square().sum() * p / (1 - p),
            "a sum over the rows",
            "The loss is averaged over the rows, and so is this.",
        ),
        Mistake(
            lambda x, w, p: (x * w).square().mean() * p / (1 - p),
            "an average over the features",
            "The unit sums its features; so do their variances.",
        ),
        Mistake(
            lambda x, w, p: (x * w).square().sum(-1).mean() / (1 - p),
            "the mean square in place of the variance",
            "Subtract the squared mean.",
        ),
        Mistake(
            lambda x, w, p: (x * w).square().sum(-1).mean() * p,
            "the rate in place of p/(1 - p)",
            "Read Law 1 again.",
        ),
    ),
    hints=(
        "Law 1 gives the variance of one feature. What does a factor w do to a variance?",
        "One variance for each row and feature. Sum over the features, then average over the rows.",
    ),
)

EXERCISES = {"dropout_penalty": DROPOUT_PENALTY}

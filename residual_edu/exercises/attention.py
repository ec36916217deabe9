"""Exercise on attention: the formula."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from residual_edu.exercises.exercise import Exercise, Mistake, Property, close, draw, run, same_gradients
from residual_edu.exercises.seen import seen
from residual_edu.parts import attention

Formula = Callable[[Tensor, Tensor, Tensor], Tensor]

# Softmax of scaled scores over the keys, then the weighted mean of the values.


def over_keys(scores: Tensor) -> Tensor:
    """Return weights that sum to 1 in each row."""
    return scores.softmax(dim=-1)


def variant(
    scale: Callable[[Tensor, Tensor], float] = lambda q, k: q.shape[-1] ** -0.5,
    weigh: Callable[[Tensor], Tensor] = over_keys,
) -> Formula:
    """Return the formula with another scale, or with another map from scores to weights."""
    return lambda q, k, v: weigh(q @ k.mT * scale(q, k)) @ v


def inputs(*batch: int, features: int = 4, keys: int = 5, value_dim: int = 4) -> list[Tensor]:
    """Return five queries, keys and values."""
    shapes = [(*batch, 5, features), (*batch, keys, features), (*batch, keys, value_dim)]
    return [2 * draw(*shape, seed=seed) for seed, shape in enumerate(shapes)]


def agrees(f: Formula, cases: Sequence[Sequence[Tensor]]) -> None:
    """Test the values for some inputs."""
    for q, k, v in cases:
        want = attention(q, k, v)
        close(run(f, q, k, v, like=want), want, f"for a query of shape {tuple(q.shape)} the output")


def four_tokens(f: Formula) -> None:
    """Test the lesson's tokens, with four features, so that 1/sqrt(d) is 1/2."""
    key = torch.zeros(4, 4, dtype=torch.float64)
    key[:, 0] = torch.tensor([1.0, 1, 2, 4]).log()
    query = torch.tensor([[2.0, 0, 0, 0]], dtype=torch.float64)
    value = torch.tensor([[8.0], [0], [4], [2]], dtype=torch.float64)
    close(run(f, query, key, value), torch.tensor([[3.0]]).double(), "the output for the lesson's query")


def keeps_a_constant(f: Formula) -> None:
    """Test that a mean of equal values is that value."""
    q, k, _ = inputs()
    close(run(f, q, k, torch.full((5, 2), 7.0).double()), torch.full((5, 2), 7.0), "the mean of values that are all 7")


def large_scores(f: Formula) -> None:
    """Test scores in the thousands, whose exponentials no float64 holds."""
    q, k, v = inputs()
    want = attention(50 * q, 50 * k, v)
    close(run(f, 50 * q, 50 * k, v, like=want), want, "for scores in the thousands the output")


LEARNED = [
    dict(zip(("query", "key", "value"), given, strict=True)) for given in (inputs(2, keys=3, value_dim=2), inputs())
]


ATTENTION = Exercise(
    reference=variant(),
    also_right=(attention, torch.nn.functional.scaled_dot_product_attention),
    observe=lambda f: seen(
        lambda: run(f, *inputs(features=9, value_dim=2)), lambda: run(f, *inputs(3, features=7, keys=2, value_dim=3))
    ),
    properties=(
        Property("values that are all 7 have the mean 7", keeps_a_constant),
        Property("the output for the lesson's query, with four features, is 3", four_tokens),
        Property(
            "queries, keys and values may be of different number and width",
            lambda f: agrees(f, [inputs(keys=3, value_dim=2), *(inputs(features=d) for d in (1, 2, 6, 9))]),
        ),
        Property("any number of axes may come first", lambda f: agrees(f, [inputs(), inputs(2), inputs(2, 3)])),
        Property("a single key, a single query", lambda f: agrees(f, [inputs(keys=1), [z[:1] for z in inputs()]])),
        Property("large scores do not overflow", large_scores, hints=()),
        Property("gradients reach query, key and value", same_gradients(attention, *LEARNED), hints=()),
    ),
    mistakes=(
        Mistake(
            variant(lambda q, k: 1.0),
            "scores that were not scaled",
            "Divide them by the root of the features: `query.shape[-1] ** 0.5`.",
        ),
        Mistake(
            variant(lambda q, k: 1 / q.shape[-1]),
            "scores divided by d",
            "Their spread is sqrt(d), so divide by the root.",
        ),
        Mistake(
            variant(lambda q, k: 0.5),
            "scores divided by 2, whatever the width",
            "That is right for four features: ask the query how many it has, `query.shape[-1]`.",
        ),
        Mistake(
            variant(lambda q, k: q.shape[-1] ** 0.5),
            "scores multiplied by sqrt(d)",
            "They are too large already: divide.",
        ),
        Mistake(
            variant(lambda q, k: k.shape[-2] ** -0.5),
            "scores divided by the root of the number of keys",
            "A score is a sum over features: it is their number whose root counts.",
        ),
        Mistake(
            variant(weigh=lambda scores: scores.softmax(dim=-2)),
            "a softmax over the queries",
            "The weights of one query fill one row: softmax over the last axis, the keys.",
        ),
        Mistake(
            variant(weigh=lambda s: s), "no softmax", "Turn each row of scores into weights before the mean is taken."
        ),
        Mistake(
            variant(weigh=torch.exp), "weights that do not sum to 1", "Divide each row by its sum, as softmax does."
        ),
        Mistake(
            variant(weigh=torch.sigmoid),
            "a gate for each key",
            "Keys compete: a softmax over them, not a sigmoid of each.",
        ),
        Mistake(
            variant(weigh=lambda s: torch.nn.functional.one_hot(s.argmax(-1), s.shape[-1]).to(s)),
            "the loudest key alone",
            "Every key has some weight, and a gradient flows back through the softmax.",
        ),
        Mistake(
            lambda q, k, v: variant()(k, q, v),
            "query and key in each other's place",
            "A row belongs to a query: `query @ key.mT`.",
        ),
        Mistake(
            lambda q, k, v: variant()(q, k, k),
            "the mean of the keys",
            "Keys make the scores; the output is a mean of values.",
        ),
        Mistake(
            lambda q, k, v: variant(lambda q, k: 1.0)(q, k, v) / q.shape[-1] ** 0.5,
            "the scale after the softmax",
            "Scale the scores, before the softmax; the mean needs no scale.",
        ),
    ),
    hints=(
        "Three steps: scores of every query with every key, weights that sum to 1 in each row, a mean.",
        "`key.mT` swaps the last two axes, so `query @ key.mT` has a row for each query. What sums to 1 in it?",
    ),
)

EXERCISES = {"attention": ATTENTION}

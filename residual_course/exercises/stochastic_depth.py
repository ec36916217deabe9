"""Exercise on stochastic depth: how many branches stay, and what is left of a stream that is dropped many times."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Property, close, unchanged
from residual_edu.parts.drop_path import drop_path_schedule

Distribution = Callable[[Sequence[float]], Tensor]

# How many branches stay


def depths_left(rates: Sequence[float]) -> Tensor:
    """Return the probability that 0, 1, ..., n branches stay; the draws are independent."""
    chances = torch.ones(1, dtype=torch.float64)
    for rate in rates:
        grown = torch.zeros(len(chances) + 1, dtype=torch.float64)
        grown[:-1] += rate * chances
        grown[1:] += (1 - rate) * chances
        chances = grown
    return chances


def binomial(rates: Sequence[float]) -> Tensor:
    """Return the distribution of as many draws that all have the average rate."""
    return depths_left([sum(rates) / len(rates)] * len(rates))


def uniform(rates: Sequence[float]) -> Tensor:
    """Return the same probability for 1 to n branches."""
    return torch.tensor([0.0] + [1 / len(rates)] * len(rates), dtype=torch.float64)


def average(rates: Sequence[float]) -> Tensor:
    """Return probability 1 for the expected number."""
    chances = torch.zeros(len(rates) + 1, dtype=torch.float64)
    chances[round(len(rates) - sum(rates))] = 1
    return chances


def leaves(f: Distribution, rates: Sequence[float], what: str) -> None:
    """Test one list of rates."""
    given = list(rates)
    with unchanged(rates=given):
        got = f(given)
    close(got, depths_left(rates), what, 1e-5)


UNEVEN = [0.0, 0.1, 0.2, 0.5]

DEPTHS_LEFT = Exercise(
    reference=depths_left,
    observe=lambda f: [f(list(rates)).double() for rates in (UNEVEN, [0.3, 0.3, 0.6])],
    properties=(
        Property(
            "one branch of rate 0.3 stays with chance 0.7", lambda f: leaves(f, [0.3], "for one branch the chance")
        ),
        Property("two coins of 1/2: 1/4, 1/2, 1/4", lambda f: leaves(f, [0.5, 0.5], "for two even coins the chance")),
        Property("rates that differ", lambda f: leaves(f, UNEVEN, "for the rates 0, 0.1, 0.2, 0.5 the chance")),
        Property(
            "twelve branches, up to 0.5",
            lambda f: leaves(f, drop_path_schedule(12, 0.5), "for twelve branches the chance"),
        ),
    ),
    mistakes=(
        Mistake(
            uniform,
            "a uniform distribution",
            "Two even coins already show that it is not: one of two stays more often than both.",
        ),
        Mistake(binomial, "a binomial with the average rate", "Take the branches one by one: each has its own rate."),
        Mistake(
            lambda rates: depths_left(rates).cumsum(0),
            "running totals: the chance that so many or fewer stay",
            "Give each count its own chance; all of them sum to 1.",
        ),
        Mistake(
            lambda rates: depths_left([1 - rate for rate in rates]),
            "rates read as chances to stay",
            "With chance `rate` the branch goes.",
        ),
        Mistake(average, "the average taken for certain", "Return a chance for each count from 0 to n."),
        Mistake(
            lambda rates: depths_left(rates)[1:],
            "a list that begins at 1",
            "Begin with the chance that no branch stays at all.",
        ),
        Mistake(
            lambda rates: depths_left(sorted(rates)[:-1] + [0.0]),
            "the last branch always kept",
            "The last branch can be dropped too.",
        ),
    ),
    hints=(
        "Begin with no branch: 0 stay, for certain. What does one more branch do to each chance?",
        "A branch that goes leaves each count as it was, one that stays raises it by one. What chance has each case?",
    ),
)

# One element of the stream, coins on the stream


def survives(f: Callable[[float, int], float], p: float, depth: int) -> None:
    """Test one rate and depth."""
    close(f(p, depth), (1 - p) ** depth, f"for p = {p} and {depth} gates the chance", 1e-6)


def anywhere(f: Callable[[float, int], float]) -> None:
    """Test other rates and depths."""
    for p, depth in ((0.1, 5), (0.9, 3), (0.0, 9)):
        survives(f, p, depth)


SURVIVAL = Exercise(
    reference=lambda p, depth: (1 - p) ** depth,
    observe=lambda f: [max(0.0, float(f(p, n))) for p, n in ((0.3, 24), (0.5, 2), (0.1, 5))],
    properties=(
        Property("two coins of 1/2 leave 1/4", lambda f: survives(f, 0.5, 2)),
        Property("24 gates at 0.3", lambda f: survives(f, 0.3, 24)),
        Property("no gate, nothing lost", lambda f: survives(f, 0.3, 0)),
        Property("any rate and depth", anywhere),
    ),
    mistakes=(
        Mistake(
            lambda p, n: max(0.0, 1 - p * n),
            "losses that add up",
            "Chances of coins that must all fall well are multiplied.",
        ),
        Mistake(lambda p, n: p**n, "the chance to be dropped every time", "Survive means: kept, kept, kept."),
        Mistake(
            lambda p, n: 1 - p**n,
            "the chance to be kept at least once",
            "Once is not enough: every gate must let it pass.",
        ),
        Mistake(
            lambda p, n: (1 - p) * n,
            "a product with the depth where a power was asked for",
            "One factor 1 - p for each gate.",
        ),
        Mistake(lambda p, n: 1 - (1 - p) ** n, "the chance to be lost", "Return what is left."),
        Mistake(lambda p, n: 1 - p, "one gate alone", "There are `depth` of them, one after the other."),
        Mistake(lambda p, n: (1 - p) ** (n + 1), "one gate too many", "Count the gates: as many factors as gates."),
    ),
    hints=("What is left after one gate? And of that, after the next?", "One factor of (1 - p) for each gate."),
)

EXERCISES = {"depths_left": DEPTHS_LEFT, "survival": SURVIVAL}

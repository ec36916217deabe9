"""Exercise on attention: causal weights from scores."""

from collections.abc import Callable

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet, close, draw, run
from residual_course.checking.seen import seen

Weights = Callable[[Tensor], Tensor]


def later(scores: Tensor) -> Tensor:
    """Return True where the column comes after the row."""
    return torch.ones(scores.shape[-2:]).triu(1).bool()


def causal(scores: Tensor) -> Tensor:
    """Return the softmax of each row over the columns up to its own."""
    return scores.masked_fill(later(scores), -torch.inf).softmax(dim=-1)


def shares(numbers: Tensor) -> Tensor:
    """Return positive numbers with those that come later at 0, each row divided by its sum."""
    numbers = numbers.masked_fill(later(numbers), 0)
    return numbers / numbers.sum(-1, keepdim=True)


def _by_head(f: Weights) -> None:
    scores = torch.tensor([[5.0, 9, 9], [0, torch.tensor(3.0).log(), 9], [0, 0, torch.tensor(2.0).log()]]).double()
    want = torch.tensor([[1, 0, 0], [0.25, 0.75, 0], [0.25, 0.25, 0.5]]).double()
    close(run(f, scores, like=scores), want, "the weight")


def _later(f: Weights) -> None:
    weights = run(f, scores := draw(5, 5), like=scores)
    if (late := weights.masked_fill(~later(scores), 0)).any():
        i, j = late.nonzero()[0].tolist()
        raise Unmet(f"row {i} gives position {j}, which comes later, the weight {late[i, j].item():.3g}")


def _sums(f: Weights) -> None:
    close(run(f, scores := draw(5, 5), like=scores).sum(-1), torch.ones(5).double(), "the sum of a row")


def _values(f: Weights) -> None:
    for shape in ((1, 1), (7, 7), (2, 4, 4), (2, 3, 6, 6)):
        close(run(f, scores := draw(*shape), like=scores), causal(scores), f"for shape {shape} the weights")


def _large(f: Weights) -> None:
    scores = (4 * draw(6, 6)).clamp(max=10)
    close(run(f, scores, like=scores), causal(scores), "for scores of up to 10 the weights")


WEIGHTS_BY_HAND = Exercise(
    reference=causal,
    also_right=(lambda s: shares(s.exp()), lambda s: shares((s - s.amax(-1, keepdim=True)).exp())),
    observe=lambda f: seen(lambda: run(f, draw(4, 4)), lambda: run(f, draw(2, 3, 3))),
    properties=(
        Property("what comes later has the weight 0", _later),
        Property("each row sums to 1", _sums),
        Property("scores 0 and log 3 have the weights 1/4 and 3/4", _by_head),
        Property("any number of positions, with any axes before them", _values),
        Property("scores of up to 10", _large),
    ),
    mistakes=(
        Mistake(
            lambda s: s.softmax(-1).masked_fill(later(s), 0),
            "a softmax over all positions, masked afterwards",
            "What comes later took its share before it was set to 0: take it out before the rows are divided.",
        ),
        Mistake(lambda s: s.softmax(-1), "a softmax without a mask", "A column that comes after its row has weight 0."),
        Mistake(
            lambda s: s.masked_fill(later(s), 0).softmax(-1),
            "later scores set to 0",
            "The exponential of 0 is 1, and that is a weight. Which score has the exponential 0?",
        ),
        Mistake(
            lambda s: s.masked_fill(later(s), -torch.inf).softmax(-2),
            "columns that sum to 1",
            "Each row is one picture with its weights: divide along the last axis.",
        ),
        Mistake(
            lambda s: s.masked_fill(later(s).mT, -torch.inf).softmax(-1),
            "past and future exchanged",
            "Row i may take columns 0 to i.",
        ),
        Mistake(
            lambda s: s.masked_fill(later(s) | torch.eye(s.shape[-1]).bool(), -torch.inf).softmax(-1),
            "a mask that takes the own position out, too",
            "Row i may take column i.",
        ),
        Mistake(shares, "scores divided by their sum", "Take the exponential of each score first."),
        Mistake(
            lambda s: shares(torch.ones_like(s)), "equal weights", "The scores decide the weights: their exponentials."
        ),
        Mistake(
            lambda s: s.exp().masked_fill(later(s), 0),
            "exponentials that are not divided",
            "Divide each by its row's sum.",
        ),
    ),
    hints=(
        "Which numbers does a softmax make of its scores, and what is a weight? Write both down for a row of two.",
        "`torch.ones(n, n).triu(1).bool()` is True above the diagonal. Mask first; then the sum is over what is left.",
    ),
)

EXERCISES = {"weights_by_hand": WEIGHTS_BY_HAND}

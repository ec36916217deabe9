"""Exercise on the scan as a matrix: the share of what was written at s that is left at t."""

from collections.abc import Callable

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Property, close, draw, run, same_gradients

Decays = Callable[[Tensor], Tensor]


def written_out(first: int = 1, last: int = 1, diagonal: float = 1.0) -> Decays:
    """Return the product over s + ``first`` <= r < t + ``last``, and ``diagonal`` where t = s."""

    def decays(keep: Tensor) -> Tensor:
        n = len(keep)
        rows = [
            [keep[s + first : t + last].prod() if s <= t else keep.new_zeros(()) for s in range(n)] for t in range(n)
        ]
        whole = torch.stack([torch.stack(row) for row in rows])
        return whole if diagonal else whole.tril(-1)

    return decays


decay_matrix = written_out()


def by_columns(keep: Tensor) -> Tensor:
    """Return the same by running products down each column."""
    later = torch.ones(len(keep), len(keep)).tril(-1).bool()
    return torch.where(later, keep[:, None], torch.ones_like(keep)).cumprod(0).tril()


def by_division(keep: Tensor) -> Tensor:
    """Divide one running product by another."""
    total = keep.cumprod(0)
    return (total[:, None] / total).tril()


def powers(keep: Tensor) -> Tensor:
    """Return the last decay to the power of the distance."""
    place = torch.arange(len(keep))
    return (keep[:, None] ** (place[:, None] - place).clamp(min=0)).tril()


def matches(f: Decays, keep: Tensor) -> None:
    """Test one list of decays."""
    like = keep.new_empty(len(keep), len(keep))
    close(run(f, keep, like=like), decay_matrix(keep), "the matrix")


def is_causal(f: Decays) -> None:
    """Test that the entries above the diagonal are 0 and those on it 1."""
    got = run(f, draw(4).sigmoid())
    close(got.triu(1), torch.zeros(4, 4), "the part above the diagonal")
    close(got.diagonal(), torch.ones(4), "the diagonal")


def numbers(*values: float) -> Tensor:
    """Return the values in float64."""
    return torch.tensor(values, dtype=torch.float64)


X = draw(5, seed=2).sigmoid()

DECAY_MATRIX = Exercise(
    reference=decay_matrix,
    also_right=(by_columns,),
    observe=lambda f: (run(f, numbers(0.9, 0.5, 0.2, 0.7, 0.4)), run(f, numbers(0.5, 0, 0.5, 1))),
    properties=(
        Property("zeros above the diagonal, ones on it", is_causal),
        Property(
            "½, ¼, ½: the rows are 1, 0, 0, then ¼, 1, 0, then ⅛, ½, 1",
            lambda f: matches(f, numbers(0.5, 0.25, 0.5)),
        ),
        Property("any decays", lambda f: matches(f, draw(7).sigmoid())),
        Property("a decay of 0, which forgets everything, does no harm", lambda f: matches(f, numbers(0.5, 0, 0.5, 1))),
        Property("a single position", lambda f: matches(f, numbers(0.3))),
        Property(
            "gradients reach the decays",
            same_gradients(decay_matrix, {"keep": X}),
            hints=(),
        ),
    ),
    mistakes=(
        Mistake(
            written_out(first=0),
            "a product that begins at s",
            "What is written at s is not faded by the step of s: begin at s + 1.",
        ),
        Mistake(
            written_out(first=0, last=0),
            "a product that ends before t",
            "Position t fades before it reads: the decay of t belongs to it, that of s does not.",
        ),
        Mistake(
            lambda keep: decay_matrix(keep).mT,
            "the transposed matrix",
            "Rows are the positions t that read, columns the positions s.",
        ),
        Mistake(
            by_division,
            "one running product divided by another",
            "That is 0 / 0 after a decay of 0; multiply from s + 1 on instead.",
        ),
        Mistake(
            lambda keep: decay_matrix(keep) + (1 - decay_matrix(torch.ones_like(keep))),
            "a matrix that also depends on later positions",
            "Above the diagonal it is 0: `.tril()`.",
        ),
        Mistake(
            written_out(diagonal=0.0),
            "a diagonal of 0",
            "Nothing has decayed at its own position: an empty product is 1.",
        ),
        Mistake(
            lambda keep: keep[:, None].expand(-1, len(keep)).tril(-1) + torch.eye(len(keep), dtype=keep.dtype),
            "a single decay, that of t",
            "Multiply all decays from s + 1 to t.",
        ),
        Mistake(powers, "the decay of t as often as it is far", "Each step has a decay of its own: multiply those."),
        Mistake(
            lambda keep: (keep.cumsum(0)[:, None] - keep.cumsum(0)).tril(),
            "a sum of decays",
            "Decays multiply: half of a half is a quarter.",
        ),
    ),
    hints=(
        "Write row t = 2 by hand: what is left there of what was written at 0, at 1, at 2?",
        "Entry (t, s) is a product of decays. Does it begin with that of s, or with the next one? Does t still count?",
    ),
)

EXERCISES = {"decay_matrix": DECAY_MATRIX}

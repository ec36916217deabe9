"""Exercise on rotary positions of a picture: half of the pairs turn with the row, half with the column."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Property, close, run
from residual_course.checking.properties import fits

Angles = Callable[[int, int, float], Tensor]


def turned(
    side: int,
    pairs: int,
    base: float,
    speeds: Callable[[int, float], Tensor] = lambda half, base: base ** (-torch.arange(half).double() / half),
    first: int = 0,
) -> Tensor:
    """Return the angles of side by side patches, (side * side, pairs), with other speeds or another first number."""
    turn, place = speeds(pairs // 2, base), torch.arange(side * side)
    row, column = place // side + first, place % side + first
    return torch.cat([row[:, None] * turn, column[:, None] * turn], dim=1)


def by_speeds(speeds: Callable[[int, float], Tensor]) -> Angles:
    """Return an answer with other speeds."""
    return lambda side, pairs, base: turned(side, pairs, base, speeds)


def columns_first(side: int, pairs: int, base: float) -> Tensor:
    """Let the first half of the pairs turn with the column."""
    return turned(side, pairs, base).roll(pairs // 2, 1)


def in_turns(side: int, pairs: int, base: float) -> Tensor:
    """Let rows and columns have every other pair."""
    return turned(side, pairs, base).unflatten(1, (2, -1)).transpose(1, 2).flatten(1)


def in_one_row(side: int, pairs: int, base: float) -> Tensor:
    """Take the patches for a sequence."""
    turn = base ** (-torch.arange(pairs).double() / pairs)
    return torch.arange(side * side)[:, None] * turn


def summed(side: int, pairs: int, base: float) -> Tensor:
    """Turn every pair by row and column together."""
    turn, place = base ** (-torch.arange(pairs).double() / pairs), torch.arange(side * side)
    return (place // side + place % side)[:, None] * turn


def with_cls(side: int, pairs: int, base: float) -> Tensor:
    """Put an angle of 0 for the CLS token in front."""
    return torch.cat([torch.zeros(1, pairs).double(), turned(side, pairs, base)])


def asked(f: Angles, *sizes: tuple[int, int, float]) -> None:
    """Compare an answer's angles with the right ones."""
    for side, pairs, base in sizes:
        wanted = turned(side, pairs, base)
        found = run(partial(f, side, pairs, base))
        fits(found, wanted.to(found.dtype))  # no input has a dtype that an answer would have to keep
        close(found, wanted, f"for side {side}, {pairs} pairs and base {base:g} the angle", 1e-5)


GRID_ANGLES = Exercise(
    reference=turned,
    also_right=(lambda side, pairs, base: turned(side, pairs, base).float(),),
    observe=lambda f: [run(lambda: f(3, 4, 100.0)), run(lambda: f(2, 6, 8.0)), run(lambda: f(4, 2, 7.0))],
    properties=(
        Property("four patches, two pairs: a row and a column", lambda f: asked(f, (2, 2, 100.0))),
        Property("each half of the pairs has speeds of its own, from 1 down", lambda f: asked(f, (2, 4, 100.0))),
        Property("any side, number of pairs and base", lambda f: asked(f, (3, 8, 10_000.0), (4, 6, 8.0), (1, 4, 2.0))),
    ),
    mistakes=(
        Mistake(
            columns_first,
            "rows and columns exchanged",
            "Patch 1 stands in row 0, column 1, and the pairs of the rows come first.",
        ),
        Mistake(
            by_speeds(lambda half, base: base ** (-torch.arange(half).double() / (2 * half))),
            "speeds that fall half as fast",
            "The exponent of pair j is j over the number of pairs of one half.",
        ),
        Mistake(
            by_speeds(lambda half, base: base ** (torch.arange(half).double() / half)),
            "speeds that grow from pair to pair",
            "The exponent is negative: the first pair is the fastest.",
        ),
        Mistake(
            by_speeds(lambda half, base: base ** -torch.arange(half).double()),
            "an exponent that is not divided",
            "The exponent of pair j is j over the number of pairs of one half.",
        ),
        Mistake(
            by_speeds(lambda half, base: base ** (-torch.arange(1, half + 1).double() / half)),
            "pairs that are counted from 1",
            "The first pair has j = 0 and turns by 1 for each row.",
        ),
        Mistake(
            lambda side, pairs, base: turned(side, pairs, base, first=1),
            "rows and columns that are counted from 1",
            "The first row has the number 0.",
        ),
        Mistake(in_turns, "rows and columns in turns, pair by pair", "All pairs of the rows stand first."),
        Mistake(in_one_row, "a sequence instead of a grid", "A patch has two numbers: its row and its column."),
        Mistake(summed, "row and column in one sum", "Each pair turns with one of the two."),
        Mistake(with_cls, "a row of zeros in front", "Only the patches are asked for."),
    ),
    hints=(
        "Two numbers for each patch, from its place in the row of patches: which operations give row and column?",
        "A column of rows times a row of speeds has one angle for each patch and pair; the same for columns; then put "
        "the two side by side.",
    ),
)

EXERCISES = {"grid_angles": GRID_ANGLES}

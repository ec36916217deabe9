"""Exercise on cost: the matrix products of a ViT-5 block, counted by hand."""

from collections.abc import Callable
from functools import partial
from typing import Any

from residual_course.checking.exercise import Exercise, Mistake, Property, close, value_of

Count = Callable[[int, int], Any]


def count(maps: int = 4, tables: int = 2, mlp: int = 4, adds: int = 2) -> Count:
    """Return a count of multiplications: maps of C by C, tables of T by T, an MLP, and ``adds`` for each."""
    return lambda tokens, channels: (
        adds
        * (
            (maps + mlp) * tokens * channels**2 + tables * tokens**2 * channels  # both in multiplications
        )
    )


def _right(noun: str, *cases: tuple[int, int]) -> Callable[[Count], None]:
    def test(f: Count) -> None:
        for tokens, channels in cases:
            found = value_of(partial(f, tokens, channels), int)
            close(found, RIGHT(tokens, channels), f"for T = {tokens} and C = {channels} {noun}")

    return test


RIGHT = count()
MAPS = "Attention has four maps of C by C: query, key, value, and the way out."

BLOCK_FLOPS = Exercise(
    reference=RIGHT,
    also_right=(lambda t, c: 16 * t * c * c + 4 * t * t * c,),
    observe=lambda f: [value_of(partial(f, t, c), float) for t, c in ((1, 1), (2, 1), (1, 2), (21, 48), (5, 7))],
    properties=(
        Property("one token of one channel costs 20", _right("the cost", (1, 1))),
        Property("it grows as it should with the channels", _right("the cost", (1, 2), (1, 48))),
        Property("it grows as it should with the tokens", _right("the cost", (2, 1), (21, 48), (200, 3))),
        Property("large networks too", _right("the cost", (65_536, 4_096))),
    ),
    mistakes=(
        Mistake(count(adds=1), "multiplications alone", "A product of matrices multiplies and adds: two for each."),
        Mistake(count(maps=3), "a block without the map on the way out", MAPS),
        Mistake(count(maps=1), "one map where attention has four", f"{MAPS} One matrix may hold three of them."),
        Mistake(
            count(tables=1),
            "one table of T by T",
            "Two products have that size: queries with keys, and weights with values.",
        ),
        Mistake(
            count(tables=0),
            "a block whose tokens do not meet",
            "Every query meets every key: T · T products of C numbers, and as many again for the values.",
        ),
        Mistake(count(mlp=2), "an MLP of one map", "It has two: C to 2C, and 2C back to C."),
        Mistake(count(mlp=8), "an MLP four times as wide", "This one is twice as wide as the stream."),
        Mistake(count(mlp=0), "attention alone", "The second branch is an MLP: C to 2C, and back."),
        Mistake(
            lambda t, c: 16 * t * c * c + 4 * t * t,
            "tables whose entries cost nothing but themselves",
            "Each entry of a table of T by T is a product of C numbers.",
        ),
        Mistake(
            lambda t, c: 16 * c * c + 4 * t * t * c, "maps applied to one token", "Every token goes through each map."
        ),
    ),
    hints=(
        "A product of (a, b) with (b, c) costs 2 · a · b · c. List the products of the block; there are eight.",
        "A map of C by C costs 2 T C², and one of C by 2 C twice that. Which two products hold a table of T by T?",
    ),
)

EXERCISES = {"block_flops": BLOCK_FLOPS}

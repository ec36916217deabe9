"""Exercise on the layout of tokens: where the registers begin, and how many padding tokens follow them."""

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from residual_edu.exercises.exercise import Exercise, Mistake, Property, Unmet

Places = Callable[[int, bool, int, int], Any]

CASES = ((16, True, 4, 4), (16, False, 4, 4), (9, True, 2, 3), (9, True, 4, 3), (64, False, 0, 8), (6, True, 1, 5))


def places(patches: int, has_cls: bool, registers: int, row: int) -> tuple[int, int]:
    """Return where the registers begin, and how many tokens of padding fill the last row."""
    start = patches + has_cls
    return start, -(start + registers) % row


def two(f: Places, *case: Any) -> tuple[int, int]:
    """Return the two whole numbers that ``f`` returns, or raise ``Unmet``."""
    got = f(*case)
    got = got.tolist() if isinstance(got, Tensor | np.ndarray) else got
    if not isinstance(got, tuple | list) or len(got) != 2 or any(isinstance(n, bool) or int(n) != n for n in got):
        raise Unmet("it returned something else than two whole numbers, (start, padding)")
    return int(got[0]), int(got[1])


def _right(which: int, noun: str, *cases: tuple[int, bool, int, int]) -> Callable[[Places], None]:
    def test(f: Places) -> None:
        for case in cases:
            found, right = two(f, *case)[which], places(*case)[which]
            if found != right:
                patches, has_cls, registers, row = case
                who = f"{patches} patches, {'a' if has_cls else 'no'} CLS token, {registers} registers, rows of {row}"
                raise Unmet(f"for {who} the {noun} is {found} where {right} is right")

    return test


TOKEN_PLACES = Exercise(
    reference=places,
    also_right=(
        lambda p, c, r, w: (p + int(c), (w - (p + int(c) + r) % w) % w),
        lambda p, c, r, w: list(places(p, c, r, w)),
    ),
    observe=lambda f: [list(two(f, *case)) for case in CASES],
    properties=(
        Property("the registers come after the patches and the CLS token", _right(0, "start", CASES[0], CASES[2])),
        Property("without a CLS token they stand one place earlier", _right(0, "start", CASES[1], CASES[4])),
        Property("padding fills the last row", _right(1, "padding", CASES[0], CASES[3], CASES[5])),
        Property("a row that is full gets none", _right(1, "padding", CASES[1], CASES[2], CASES[4])),
    ),
    mistakes=(
        Mistake(
            lambda p, c, r, w: (int(c), places(p, c, r, w)[1]),
            "the older layout [CLS, registers, patches]",
            "Here the patches stand first: count them.",
        ),
        Mistake(
            lambda p, c, r, w: (p, places(p, c, r, w)[1]),
            "registers that begin on the CLS token",
            "Where there is a CLS token, it stands between: add 1.",
        ),
        Mistake(
            lambda p, c, r, w: (p + 1, places(p, c, r, w)[1]),
            "a CLS token that is always there",
            "Add `has_cls`, which counts as 0 or 1.",
        ),
        Mistake(
            lambda p, c, r, w: (p + c + r, places(p, c, r, w)[1]),
            "the end of the registers",
            "Return where they begin: what stands *before* them.",
        ),
        Mistake(
            lambda p, c, r, w: (p + c, (p + c + r) % w),
            "what is left over beyond whole rows, instead of what is missing",
            "If 1 is left over in a row of 4, then 3 are missing: `-tokens % row`.",
        ),
        Mistake(
            lambda p, c, r, w: (p + c, w - (p + c + r) % w),
            "a whole row of padding where none is missing",
            "Take `% row` of it once more, or write `-tokens % row`.",
        ),
        Mistake(
            lambda p, c, r, w: (p + c, -(p + c) % w),
            "registers forgotten in the count",
            "They stand in the rows too: patches, CLS token and registers.",
        ),
        Mistake(
            lambda p, c, r, w: (p + c, p + c + r - (p + c + r) // -w * -w),
            "the padding with the wrong sign",
            "How many tokens are added? Not fewer than none.",
        ),
        Mistake(
            lambda p, c, r, w: (p + c, -((p + c + r) // -w) * w),
            "the length with padding, instead of the padding",
            "Subtract the tokens that are there already.",
        ),
    ),
    hints=(
        "Write the tokens down for 4 patches, a CLS token, 1 register and rows of 4, and count from 0.",
        "Registers count for the padding, not for the start. Of 6 tokens rows of 4 miss 2, of 8 none: `-6 % 4` is 2.",
    ),
)

EXERCISES = {"token_places": TOKEN_PLACES}

"""When an output that a cell prints now counts as the one that is stored.

Decimals may differ by rounding (2e-3, or a thousandth of their size), so tiny numbers such as 2.5e-08 and 3.1e-08 count
as the same; integers, version numbers and text must be equal, the amount of space between words aside, since a minus
sign moves columns.

What a training gave differs between builds of torch, numbers of threads and processors. Of a cell tagged ``trained``
the lines, their words and how many numbers stand among them are compared, and no number: how far those may go is said
by the cell's own ``holds`` lines.
"""

import math
import re

TRAINED = "trained"  # the tag
ABSOLUTE, RELATIVE = 2e-3, 1e-3

# 1.25, 1., 2.5e-08, 1e-05; not 3, not the 2.13 of 2.13.0, not the 2 of x2.
DECIMAL = re.compile(r"(?<![\w.])([-+]?\d+(?:\.\d*(?:[eE][-+]?\d+)?|[eE][-+]?\d+))(?!\d|\.\d)")
# All these, 3 and 16,384, with a point behind them: 3. may be a number or the end of a sentence.
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d*)?(?:[eE][-+]?\d+)?\.?")


class Tolerant(str):
    """A text that equals another one that differs from it by rounding alone."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and same(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other


class Trained(Tolerant):
    """A text that equals another one that differs from it by its numbers alone."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and same_but_for_numbers(self, other)


def same(stored: str, printed: str) -> bool:
    """Whether two outputs agree: cut at their decimals, the text between is equal and the decimals are near."""
    left, right = DECIMAL.split(stored), DECIMAL.split(printed)
    return (
        len(left) == len(right)
        and all(words(a) == words(b) for a, b in zip(left[::2], right[::2], strict=True))
        and all(near(a, b) for a, b in zip(left[1::2], right[1::2], strict=True))
    )


def same_but_for_numbers(stored: str, printed: str) -> bool:
    """Whether two outputs agree in their lines and words, with a number wherever the other one has one."""
    return words(NUMBER.sub("#", stored)) == words(NUMBER.sub("#", printed))


def words(text: str) -> list[list[str]]:
    """Return the words of each line."""
    return [line.split() for line in text.split("\n")]


def near(a: str, b: str) -> bool:
    """Whether two decimals agree; both written as ``12.`` they are whole numbers, and must be equal."""
    if a.endswith(".") and b.endswith("."):
        return float(a) == float(b)
    return math.isclose(float(a), float(b), rel_tol=RELATIVE, abs_tol=ABSOLUTE)

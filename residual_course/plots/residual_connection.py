"""One residual connection, number by number; its gradient; and stacks of many."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path
from numpy.typing import ArrayLike

from residual_course.plots.style import BRANCH, DROPPED, GATE, REFERENCE, STREAM

# Coordinates in the picture of one connection, which is 100 wide and 64 high.
X, NORM, HIDDEN, LAYER, GATED, OUT = 6.5, 24.0, 41.0, 58.0, 75.0, 91.5
IN_STREAM, IN_BRANCH = 48.5, 19.5
COLUMN, BANK = 17.6, 9.6  # height of a column of numbers; from the middle of the stream to its bank


def plot_connection(
    x: ArrayLike, normed: ArrayLike, hidden: ArrayLike, layer: ArrayLike, gated: ArrayLike, ax: Axes
) -> Axes:
    """Draw where each number of x + dropout(sublayer(norm(x))) comes from, for one token of up to four features.

    The skip is at the top. The branch leaves it, is normalised, passes the sublayer (``hidden`` are its features after
    the ReLU) and dropout at rate 0.1, and is added. Numbers that the ReLU or dropout set to 0 are grey.
    """
    x, normed, hidden, layer, gated = (np.asarray(values, float) for values in (x, normed, hidden, layer, gated))
    blue, orange = [STREAM] * len(x), _inks(gated)
    sums = [_digits(v) if g else f"{v:g}" for v, g in zip(x + gated, gated, strict=True)]
    ax.set(xlim=(0, 100), ylim=(0, 64))
    ax.axis("off")
    _water(ax)
    _wires(ax, (X, OUT), IN_STREAM, blue)
    _wires(ax, (LAYER, GATED), IN_BRANCH, orange)
    _crossing(ax, NORM, len(x), hidden)
    _crossing(ax, LAYER, len(x), hidden)
    _neurons(ax, hidden)
    _numbers(ax, X, IN_STREAM, [f"{v:g}" for v in x], blue)
    _numbers(ax, NORM, IN_BRANCH, [_digits(v) for v in normed], [REFERENCE] * len(x))
    _numbers(ax, LAYER, IN_BRANCH, [_digits(v) for v in layer], [BRANCH] * len(x))
    _numbers(ax, GATED, IN_BRANCH, [_digits(v) for v in gated], orange)
    _numbers(ax, GATED, IN_STREAM, [("+ " if v >= 0 else "− ") + _digits(abs(v)) for v in gated], orange)
    _numbers(ax, OUT, IN_STREAM, sums, blue)
    return _captions(ax)


def _water(ax: Axes) -> None:
    """Fill the stream, from left to right, and the two channels of the branch, down and up."""
    low, high = IN_STREAM - BANK, IN_STREAM + BANK
    ax.fill([1.5, 97, 99.5, 97, 1.5], [low, low, IN_STREAM, high, high], color=STREAM, alpha=0.16, lw=0)
    for place, arrow in ((NORM, "▼"), (GATED, "▲")):
        _channel(ax, place, low)
        ax.text(place, (low + IN_BRANCH + COLUMN / 2) / 2, arrow, color=BRANCH, ha="center", va="center")


def _channel(ax: Axes, place: float, bank: float) -> None:
    """Fill one channel, from the foot of the branch up to the stream's bank, where it flares."""
    left, right, foot = place - 5.7, place + 5.7, IN_BRANCH - COLUMN / 2 - 0.5
    corners = [(left - 3, bank), (left, bank), (left, bank - 3), (left, foot)]
    corners += [(right, foot), (right, bank - 3), (right, bank), (right + 3, bank)]
    curve, line = Path.CURVE3, Path.LINETO
    outline = Path(corners, [Path.MOVETO, curve, curve, line, line, line, curve, curve])
    ax.add_patch(PathPatch(outline, facecolor=BRANCH, alpha=0.16, lw=0))


def _heights(count: int, middle: float) -> list[float]:
    """Return the heights of ``count`` numbers in one column, the first at the top."""
    return list(middle + COLUMN * (0.5 - (np.arange(count) + 0.5) / count))


def _wires(ax: Axes, ends: tuple[float, float], middle: float, colors: Sequence[str]) -> None:
    """Draw one straight line per feature, dotted where it was dropped."""
    for height, color in zip(_heights(len(colors), middle), colors, strict=True):
        ax.plot(ends, [height] * 2, color=color, lw=1.5, ls=":" if color == DROPPED else "-", zorder=1)


def _crossing(ax: Axes, place: float, count: int, hidden: np.ndarray) -> None:
    """Draw a line between each of ``count`` numbers and each hidden feature."""
    for outer in _heights(count, IN_BRANCH):
        for inner, color in zip(_heights(len(hidden), IN_BRANCH), _inks(hidden), strict=True):
            ax.plot([place, HIDDEN], [outer, inner], color=color, lw=0.5, zorder=1)


def _neurons(ax: Axes, hidden: np.ndarray) -> None:
    for height, color in zip(_heights(len(hidden), IN_BRANCH), _inks(hidden), strict=True):
        _frame(ax, HIDDEN, height, (4.0, 1.3), color, "white" if color == DROPPED else color)


def _numbers(ax: Axes, place: float, middle: float, texts: Sequence[str], colors: Sequence[str]) -> None:
    """Draw a column of numbers, each in its frame."""
    for height, text, color in zip(_heights(len(texts), middle), texts, colors, strict=True):
        _frame(ax, place, height, (9.6, 3.5), color, "white")
        weight = "bold" if color == STREAM else "normal"
        ax.text(place, height - 0.1, text, ha="center", va="center", color=color, weight=weight, zorder=3)


def _frame(ax: Axes, place: float, height: float, size: tuple[float, float], edge: str, face: str) -> None:
    corner = (place - size[0] / 2, height - size[1] / 2)
    box = "round,pad=0,rounding_size=0.7"
    ax.add_patch(FancyBboxPatch(corner, *size, boxstyle=box, facecolor=face, edgecolor=edge, lw=1.2, zorder=2))


def _captions(ax: Axes) -> Axes:
    above, below = IN_STREAM + BANK + 1, IN_BRANCH - COLUMN / 2 - 1.5
    ax.text(1.7, above, "x", color=STREAM, size=13, weight="bold")
    ax.text((NORM + GATED) / 2, above, "the skip: x itself", color=STREAM, size=11.5, ha="center")
    ax.text(97, above, "x + branch", color=STREAM, size=13, weight="bold", ha="right")
    ax.text((NORM + GATED) / 2, IN_BRANCH + BANK + 2.5, "the branch: what to add", color=BRANCH, size=11.5, ha="center")
    for place, letter, words, color in (
        (NORM, "norm", "less the mean,\nover the spread", REFERENCE),
        ((HIDDEN + LAYER) / 2, "sublayer", "two linear layers,\na ReLU between", BRANCH),
        (GATED, "dropout", "set to 0, or\ndivided by 0.9", GATE),
    ):
        ax.text(place, below, letter, color=color, size=13, weight="bold", ha="center", va="top")
        ax.text(place, below - 3.4, words, color=REFERENCE, ha="center", va="top", linespacing=1.2)
    return ax


def _digits(value: float) -> str:
    return "0" if value == 0 else f"{value:.2f}".replace("-", "−")


def _inks(values: np.ndarray) -> list[str]:
    return [DROPPED if value == 0 else BRANCH for value in values]

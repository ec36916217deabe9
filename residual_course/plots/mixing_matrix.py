"""Mixing matrices: how much each output position, a row, depends on each input position, a column."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from numpy.typing import ArrayLike

from residual_course.plots.style import BRANCH

LOUDNESS = LinearSegmentedColormap.from_list("loudness", ["#FDEBDD", BRANCH, "#4A1D00"])
SILENCE = "#C9D6DF"  # a colour that no loudness has: not a little, but nothing at all


def plot_mixing_matrix(matrix: ArrayLike, ax: Axes, top: float | None = None, named: bool = True) -> Axes:
    """Draw how much each output position, a row, depends on each input position, a column; an exact zero is grey.

    ``top`` is the value of the darkest colour, by default the largest number. Without ``named`` the axes have no
    labels, for one panel among several.
    """
    weights = np.asarray(matrix, float)
    zero = weights == 0
    shown = np.ma.masked_array(weights, zero)
    top = float(weights.max()) if top is None else top
    ax.set_facecolor(SILENCE)
    ax.imshow(shown, cmap=LOUDNESS, vmin=0, vmax=top or 1, interpolation="nearest")
    for axis, count in ((ax.xaxis, weights.shape[1]), (ax.yaxis, weights.shape[0])):
        axis.set_ticks(ticks(count))
    if named:
        grey = " (grey: not at all)" if zero.any() else ""
        ax.set(xlabel=f"input position{grey}", ylabel="output position")
    ax.grid(False)
    return ax


def ticks(count: int) -> list[int]:
    """Return at most nine positions, from 0 in equal steps."""
    return list(range(0, count, max(1, -(-count // 8))))

"""Who hears whom: one row for each position that hears, one column for each that is heard."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from numpy.typing import ArrayLike

from residual_edu.plotting.style import BRANCH

LOUDNESS = LinearSegmentedColormap.from_list("loudness", ["#FDEBDD", BRANCH, "#4A1D00"])
SILENCE = "#C9D6DF"  # a colour that no loudness has: not a little, but nothing at all


def plot_mixing_matrix(matrix: ArrayLike, ax: Axes, top: float | None = None, named: bool = True) -> Axes:
    """Draw how loudly each position, a row, hears each other, a column; an exact zero is grey.

    ``top`` is what the darkest colour stands for, the largest number if none is given; without ``named`` the axes say
    nothing, for one panel among several.
    """
    heard = np.asarray(matrix, float)
    silent = heard == 0
    shown = np.ma.masked_array(heard, silent)
    top = float(heard.max()) if top is None else top
    ax.set_facecolor(SILENCE)
    ax.imshow(shown, cmap=LOUDNESS, vmin=0, vmax=top or 1, interpolation="nearest")
    for axis, count in ((ax.xaxis, heard.shape[1]), (ax.yaxis, heard.shape[0])):
        axis.set_ticks(ticks(count))
    if named:
        grey = " (grey: not at all)" if silent.any() else ""
        ax.set(xlabel=f"position that is heard{grey}", ylabel="position that hears")
    ax.grid(False)
    return ax


def ticks(count: int) -> list[int]:
    """Return at most nine whole positions, the first among them."""
    return list(range(0, count, max(1, -(-count // 8))))

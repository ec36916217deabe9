"""Runs beside each other."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from residual_course.plots.style import PALE, REFERENCE, B


def plot_runs(found: Mapping[str, ArrayLike], ax: Axes, beside: str | None = None, label: str = "test loss") -> Axes:
    """Draw the numbers of each name as dots on a line, with their mean; the range of ``beside`` is shaded."""
    rows = len(found) - 1 - np.arange(len(found))
    if beside is not None:
        band = np.asarray(found[beside], float)
        ax.axvspan(band.min(), band.max(), color=PALE, lw=0)
    for row, (name, numbers) in zip(rows, found.items(), strict=True):
        values = np.asarray(numbers, float)
        color = REFERENCE if name == beside else B
        ax.plot([values.min(), values.max()], [row, row], color=color, lw=1)
        ax.plot(values, np.full(len(values), row), "o", color=color, ms=6, fillstyle="none", mew=1.5)
        ax.plot([values.mean()] * 2, [row - 0.25, row + 0.25], color=color, lw=2)
    ax.set_yticks(rows, list(found))
    ax.set(xlabel=label, ylim=(-0.6, len(found) - 0.4))
    return ax

"""Kernels over their positions, one under the other."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from residual_course.plots.style import DROPPED, B


def plot_ridges(positions: ArrayLike, kernels: Mapping[str, ArrayLike], ax: Axes, unit: str = "position p") -> Axes:
    """Draw named kernels over their positions, one under the other, each scaled by its largest tap."""
    places = np.asarray(positions, float)
    for row, (name, kernel) in enumerate(kernels.items()):
        taps = np.asarray(kernel, float)
        height = 0.45 / max(float(np.abs(taps).max()), 1e-12)
        ax.plot(places[[0, -1]], [-row, -row], color=DROPPED, lw=0.6)
        ax.plot(places, -row + height * taps, color=B)
        ax.text(places[-1] + 0.02 * np.ptp(places), -row, name, color=B, weight="bold", va="center")
    ax.axvline(0, color=DROPPED, lw=0.6)
    ax.spines["left"].set_visible(False)
    ax.set(yticks=[], xlabel=unit, ylim=(0.4 - len(kernels), 0.6))
    ax.set_xlim(places[0], places[-1] + 0.38 * np.ptp(places))  # room for the names
    ticks = MaxNLocator(7, steps=[1, 2, 5, 10]).tick_values(*places[[0, -1]])
    ax.set_xticks([tick for tick in ticks if places[0] <= tick <= places[-1]])
    return ax

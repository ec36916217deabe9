"""Conditions: where a label's gradient ends, and what a wrong label adds."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from residual_course.plots.style import BRANCH, DROPPED, REFERENCE, SERIES


def plot_rows(rows: Mapping[str, ArrayLike], ax: Axes, log: bool = False) -> Axes:
    """Draw a row of dots for each name, a dot a seed, from the top down; a NaN becomes the word "none"."""
    for place, (name, values) in enumerate(rows.items()):
        found = np.atleast_1d(np.asarray(values, float))
        ax.axhline(place, color=DROPPED, lw=0.5, zorder=0)
        if np.isnan(found).any():
            ax.text(0.02, place - 0.12, "none", transform=ax.get_yaxis_transform(), color=REFERENCE)
            continue
        ax.plot(found, np.full(len(found), place), "o", color=BRANCH, ms=6, alpha=0.8, clip_on=False, label=name)
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    if log:
        ax.set_xscale("log")
        ax.minorticks_off()
    else:
        ax.set_xlim(0, None)
    return ax


def plot_way_back(places: Sequence[str], sizes: Mapping[str, ArrayLike], ax: Axes) -> Axes:
    """Draw gradients at ``places`` on their way back, on a logarithmic axis, a line of two looks for each name."""
    for (name, values), (color, dash, mark) in zip(sizes.items(), SERIES, strict=False):
        found = np.asarray(values, float)
        ax.plot(found, dash, color=color, marker=mark, lw=1.5, label=name)
    ax.set_xticks(range(len(places)), list(places))
    ax.set(yscale="log", ylabel="size of the gradient")
    ax.minorticks_off()
    ax.margins(x=0.08, y=0.1)
    ax.legend(loc="lower left")
    return ax

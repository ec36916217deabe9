"""Conditions: where a label's gradient ends, what a wrong label adds, and a branch's share beside its effect."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from residual_course.plots.style import BRANCH, DROPPED, REFERENCE, SERIES, A, B


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


def plot_shares(groups: Mapping[str, tuple[ArrayLike, ArrayLike]], ax: Axes) -> Axes:
    """Draw what removing a branch costs over its share of the stream, a mark for each branch, another look a group."""
    for (name, (shares, effects)), (color, _, mark) in zip(groups.items(), SERIES, strict=False):
        filled = color if mark in "so" else "white"
        ax.plot(np.ravel(shares), np.ravel(effects), mark, color=color, mfc=filled, ms=7, ls="", label=name)
    ax.axhline(0, color=DROPPED, lw=0.8, zorder=0)
    ax.set(xlabel="share: rms of the branch / rms of the sum", ylabel="removed: the loss grows by", xlim=(0, None))
    ax.legend(loc="upper left")
    return ax


def plot_removed(effects: ArrayLike, names: Sequence[str], ax: Axes) -> Axes:
    """Draw ``(seeds, blocks, branches)`` effects as groups of dots, a group a block, another look a branch."""
    found = np.asarray(effects, float)
    for branch, (name, (color, _, mark)) in enumerate(zip(names, SERIES, strict=False)):
        places = np.arange(found.shape[1]) + 1 + 0.2 * (branch - (len(names) - 1) / 2)
        for row in found[:, :, branch]:
            filled = color if mark in "so" else "white"
            ax.plot(places, row, mark, color=color, mfc=filled, ms=6, ls="", label=name)
            name = "_" + name.lstrip("_")
    ax.axhline(0, color=DROPPED, lw=0.8, zorder=0)
    ax.set(xlabel="block", ylabel="removed: the loss grows by", xticks=range(1, found.shape[1] + 1))
    ax.legend(loc="upper right")
    return ax


def plot_sum(pairs: Mapping[str, tuple[ArrayLike, ArrayLike]], ax: Axes) -> Axes:
    """Draw for each name what single removals cost, summed, and what removing all at once costs, a mark a seed."""
    for place, (single, whole) in enumerate(pairs.values()):
        for values, color, mark, up in ((single, A, "s", -0.13), (whole, B, "o", 0.13)):
            found = np.atleast_1d(np.asarray(values, float))
            ax.plot(found, np.full(len(found), place + up), mark, color=color, ms=7)
    ax.set_yticks(range(len(pairs)), list(pairs))
    ax.set(xlabel="the loss grows by", ylim=(len(pairs) - 0.5, -0.5), xlim=(0, None))
    ax.tick_params(axis="y", length=0)
    ax.lines[0].set_label("one by one, summed")
    ax.lines[1].set_label("all at once")
    ax.legend(loc="upper right")
    return ax

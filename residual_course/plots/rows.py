"""Rows of marks: a row for each name, a mark for each seed, of each kind where there are several."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from residual_course.plots.style import DROPPED, PALE, REFERENCE, SERIES

LOOKS = (SERIES[1], SERIES[0], SERIES[3])
NO_LEVELS: Mapping[str, float] = {}


def plot_rows(
    found: Mapping[str, ArrayLike | Mapping[str, ArrayLike]],
    ax: Axes,
    beside: str | None = None,
    levels: Mapping[str, float] = NO_LEVELS,
) -> Axes:
    """Draw the numbers of each name in a row, from the top down: a mark for each seed, joined by a thin line.

    Args:
        found: for each name its numbers, or a mapping of them: then each kind has its own mark, named below.
        ax: where to.
        beside: the name whose range is shaded behind all.
        levels: named guide lines.
    """
    rows = {name: row if isinstance(row, Mapping) else {"": row} for name, row in found.items()}
    kinds = list(next(iter(rows.values())))
    if beside is not None:
        one = np.concatenate([np.ravel(values) for values in rows[beside].values()])
        ax.axvspan(one.min(), one.max(), color=PALE, lw=0)
    for name, level in levels.items():
        ax.axvline(level, color=REFERENCE, ls=":", lw=1)
        ax.text(level + 0.01, -0.9, name, ha="left", va="center", color=REFERENCE)
    for at, (kind, (ink, _, mark)) in enumerate(zip(kinds, LOOKS, strict=False)):
        shift = 0.22 * (at - (len(kinds) - 1) / 2)
        for place, row in enumerate(rows.values()):
            values = np.atleast_1d(np.asarray(row[kind], float))
            (line,) = ax.plot(values, np.full(len(values), place + shift), f"{mark}-", color=ink, lw=1, ms=6)
            line.set(markerfacecolor="white", markeredgewidth=1.5, clip_on=False, label="" if place else kind)
    if len(kinds) > 1 and (figure := ax.get_figure(root=True)):
        figure.legend(loc="outside lower center", ncols=len(kinds), handletextpad=0.3)
    ax.set_yticks(range(len(rows)), list(rows))
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color=DROPPED, alpha=0.25)
    ax.set_ylim(len(rows) - 0.4, -1.4 if levels else -0.6)
    return ax

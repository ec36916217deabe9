"""Right answers of several mixers, seed by seed."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from residual_course.plots.style import REFERENCE, SERIES

ROW_MARKS = (SERIES[1], SERIES[0], (REFERENCE, "-.", "D"))


def plot_rows(
    found: Mapping[str, ArrayLike], ax: Axes, levels: Mapping[str, float], conditions: Sequence[str] = ("",)
) -> Axes:
    """Draw the right answers of some seeds for each named row, from the top down, with ``levels`` as named guide lines.

    With several ``conditions`` a row holds a table, (conditions, seeds); each condition has its own mark.
    """
    for level in levels.values():
        ax.axvline(level, color=REFERENCE, ls=":", lw=1)
    shifts = 0.22 * (np.arange(len(conditions)) - (len(conditions) - 1) / 2)
    for place, table in enumerate(found.values()):
        rows = np.atleast_2d(np.asarray(table, float))
        for row, shift, (color, _, mark) in zip(rows, shifts, ROW_MARKS, strict=False):
            line = ax.plot(row, np.full(len(row), place + shift), mark, color=color, ms=7, mfc="none", mew=1.5)
            line[0].set_clip_on(False)
            line[0].set_label("" if place else conditions[int(np.flatnonzero(shifts == shift)[0])])
    for name, level in levels.items():
        ax.text(level + 0.01, -0.9, name, ha="left", va="center", color=REFERENCE)
    if len(conditions) > 1 and (figure := ax.get_figure(root=True)):
        figure.legend(loc="outside lower center", ncols=len(conditions), handletextpad=0)
    ax.set_yticks(range(len(found)), list(found))
    ax.tick_params(axis="y", length=0)
    ax.set(xlabel="right answers", xlim=(0, 1.02), ylim=(len(found) - 0.4, -1.4 if levels else -0.6))
    return ax

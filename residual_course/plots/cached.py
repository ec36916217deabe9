"""What a cache keeps of one token: a row of boxes for each kind of attention, as long as the numbers kept."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from residual_course.plots.style import PALE, REFERENCE

HEIGHT = 0.6  # of a box, in rows


def plot_cached(sizes: Mapping[str, ArrayLike], labels: Mapping[str, Sequence[str]], ax: Axes) -> Axes:
    """Draw a row for each kind: boxes of these ``sizes`` with their ``labels``, and how many numbers they are."""
    for row, (kind, given) in enumerate(sizes.items()):
        widths = np.asarray(given, float)
        ends = np.cumsum(widths)
        for end, width, label in zip(ends, widths, labels[kind], strict=True):
            box = (end - width, row - HEIGHT / 2)
            ax.add_patch(Rectangle(box, width, HEIGHT, facecolor=PALE, edgecolor=REFERENCE))
            ax.text(end - width / 2, row, label, ha="center", va="center")
        ax.annotate(f"{ends[-1]:.0f}", (ends[-1], row), (6, 0), textcoords="offset points", va="center", weight="bold")
    ax.set(xlim=(0, 1.1 * max(np.sum(np.asarray(each, float)) for each in sizes.values())))
    ax.set(ylim=(len(sizes) - 0.4, -0.6), xlabel="numbers kept")
    ax.set_yticks(range(len(sizes)), list(sizes))
    return ax

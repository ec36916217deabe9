"""Norm placement: the wiring, and the distance that each placement leaves.

Neither placement has a colour of the course: pre-norm is drawn dashed in A, post-norm solid in B.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch
from numpy.typing import ArrayLike

from residual_course.plots.style import BRANCH, REFERENCE, STREAM, A, B

HIGH, LOW = 30.0, 10.0  # where stream and branch run in the picture of a wiring


def look(name: str) -> dict[str, Any]:
    """Return colour and dash of a curve: "pre..." or "post..."; another dash where the name goes on after "-norm"."""
    color, plain, more = (B, "-", "-.") if name.startswith("post") else (A, "--", ":")
    return {"color": color, "ls": plain if name.endswith("-norm") else more}


def plot_wiring(placement: str, ax: Axes) -> Axes:
    """Draw two blocks of a stack, ``placement`` ``"pre"`` (with the norm after the last block) or ``"post"``."""
    ax.set(xlim=(0, 100), ylim=(0, 40))
    ax.axis("off")
    ax.annotate("", (99, HIGH), (1, HIGH), arrowprops={"arrowstyle": "-|>", "color": STREAM, "lw": 4, "shrinkA": 0})
    for fork in (9.0, 49.0):
        _branch(ax, fork, fork + 25)
        if placement == "pre":
            _box(ax, fork + 7, LOW, "norm", REFERENCE)
            _box(ax, fork + 18, LOW, "f", BRANCH)
        else:
            _box(ax, fork + 12.5, LOW, "f", BRANCH)
            _box(ax, fork + 33, HIGH, "norm", REFERENCE)
    if placement == "pre":
        _box(ax, 88.0, HIGH, "norm", REFERENCE)
    return ax


def _branch(ax: Axes, fork: float, join: float) -> None:
    """Draw the way down from the stream and back up into the sum."""
    ax.plot([fork, fork, join, join], [HIGH, LOW, LOW, HIGH], color=BRANCH, lw=2, zorder=1)
    ax.plot(fork, HIGH, "o", color=BRANCH, ms=9, zorder=2)
    ax.plot(join, HIGH, "o", color="white", markeredgecolor=STREAM, ms=17, mew=2, zorder=3)
    ax.text(join, HIGH - 0.4, "+", color=STREAM, size=15, weight="bold", ha="center", va="center", zorder=4)


def _box(ax: Axes, middle: float, height: float, word: str, color: str) -> None:
    shape = FancyBboxPatch(
        (middle - 4.75, height - 4.5),
        9.5,
        9,
        boxstyle="round,pad=0,rounding_size=1.2",
        fc="white",
        ec=color,
        lw=2,
        zorder=3,
    )
    ax.add_patch(shape)
    ax.text(middle, height, word, color=color, size=12, weight="bold", ha="center", va="center", zorder=4)


def _note(ax: Axes, text: str, place: tuple[Any, Any], offset: tuple[int, int], **style: Any) -> None:
    ax.annotate(text, place, offset, textcoords="offset points", **style)


def label_ends(ax: Axes) -> Axes:
    """Write the name of each curve beside its right end; names that would overlap are moved apart."""
    lines = sorted((line for line in ax.get_lines() if not str(line.get_label()).startswith("_")), key=_end)
    scale = ax.yaxis.get_transform()
    lowest, highest = scale.transform(ax.get_ylim())
    top = -np.inf
    for line in lines:
        name = str(line.get_label()).replace(", ", ",\n")
        half = 0.035 * (1 + name.count("\n")) * (highest - lowest)
        height = max(scale.transform(_end(line)), top + half)
        place = float(np.asarray(line.get_xdata())[-1]), float(scale.inverted().transform(height))
        style = {"color": line.get_color(), "weight": "bold", "va": "center", "linespacing": 1}
        _note(ax, name, place, (9, 0), annotation_clip=False, **style)  # the highest may stand above the axes
        top = height + half
    return ax


def _end(line: Line2D) -> float:
    return float(np.asarray(line.get_ydata())[-1])


def plot_distances(
    curves: Mapping[str, ArrayLike], ax: Axes, paper: Mapping[str, ArrayLike] = MappingProxyType({})
) -> Axes:
    """Draw the distance between digits after each block over that at the start, a logarithmic axis, names at the ends.

    Args:
        curves: ``(seeds, blocks + 1)`` for each name, which begins with "pre" or "post".
        ax: where to draw.
        paper: what was computed, ``(blocks + 1,)`` each, thin and dark.
    """
    for values in paper.values():
        ax.plot(np.asarray(values, float), color=REFERENCE, lw=0.9)
    ax.set(yscale="log", xlabel="blocks passed", ylabel="distance between digits / at the start")
    for name, values in curves.items():
        rows = np.atleast_2d(np.asarray(values, float))
        lines = ax.plot(rows.T, lw=1.5, **look(name.split(",")[0]))
        lines[0].set_label(name)
    ax.set_xlim(0, rows.shape[1] - 1)
    return label_ends(ax)

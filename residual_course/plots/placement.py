"""Norm placement: the wiring, the stream's size, the last block's gradient, and training.

Neither placement has a colour of the course: pre-norm is drawn dashed in A, post-norm solid in B.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch
from numpy.typing import ArrayLike

from residual_course.plots.style import BRANCH, REFERENCE, STREAM, A, B

TRAINED = ("80 %", "30 to 80 %", "below 30 %")  # what a full, a half and an empty mark say on a map
SHIFT = 1.17  # the marks of the second size of branches stand to the right of the first's
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


def course(handed: ArrayLike, placement: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the places and sizes of the stream along a stack, from the sizes of the norms' inputs.

    In pre-norm only the norm after the last block changes the stream, to size 1. In post-norm every norm does.
    """
    sizes = np.asarray(handed, float)
    if placement == "pre":
        last = len(sizes)
        return np.append(np.arange(last), [last, last]), np.append(sizes, [sizes[-1], 1])
    return np.append(0, np.repeat(np.arange(1, len(sizes) + 1), 2)), np.append(1, np.stack([sizes, sizes**0]).T)


def plot_courses(handed: Mapping[str, ArrayLike], ax: Axes) -> Axes:
    """Draw the stream's size along stacks, one line for each name, "pre-norm" or "post-norm", and its last drop.

    ``handed`` are the sizes of the norms' inputs. The drop at the last norm is thick, with its factor beside it.
    """
    for name, sizes in handed.items():
        places, heights = course(sizes, name.removesuffix("-norm"))
        ax.plot(places, heights, lw=1.6, **look(name))
        ax.plot(places[-2:], heights[-2:], color=REFERENCE, lw=4, solid_capstyle="butt")
        drop = f"÷ {heights[-2]:.1f}"
        if name == "pre-norm":
            _note(ax, drop, (places[-1], heights[-2]), (7, 0), va="center")
        else:
            _note(ax, drop, (places[-1], 1), (0, -5), ha="center", va="top")
        middle = float(heights[: len(heights) // 2].max())
        _note(ax, name, (places[-1] / 2, middle), (0, 12), color=look(name)["color"], weight="bold", ha="right")
    ax.set(xlabel="blocks passed", ylabel="size of the stream (rms)", ylim=(0, None))
    ax.margins(x=0.07, y=0.15)
    return ax


def _note(ax: Axes, text: str, place: tuple[Any, Any], offset: tuple[int, int], **style: Any) -> None:
    ax.annotate(text, place, offset, textcoords="offset points", **style)


def _plain(ax: Axes) -> Axes:
    """Label a logarithmic axis with plain numbers."""
    ax.set_yticks(sizes := [0.1, 0.2, 0.4, 0.8], [f"{size:g}" for size in sizes])
    ax.minorticks_off()
    ax.set_ylim(0.075, 0.85)
    return ax


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


def plot_last_drop(found: Mapping[str, tuple[ArrayLike, ArrayLike]], ax: Axes, constant: float) -> Axes:
    """Draw the last gradients over the last norm's divisor: a dot a network, and ``constant`` / size dotted."""
    for name, (sizes, gradients) in found.items():
        color = look(name)["color"]
        mark = "o" if name.startswith("post") else "s"
        full = {"ms": 4.5, "mfc": color, "zorder": 3}  # small and on top, where an open one stands at the same place
        style = full if name.endswith("-norm") else {"ms": 7, "mfc": "white"}
        ax.plot(np.ravel(sizes), np.ravel(gradients), mark, color=color, label=name, **style)
    ends = np.array([0.9, 1.1 * max(np.max(sizes) for sizes, _ in found.values())])
    ax.plot(ends, constant / ends, color=REFERENCE, lw=1.2, ls=":", zorder=0)
    _note(ax, f"{constant:.1f} / size", (2.4, constant / 2.4), (6, 6), color=REFERENCE)
    ax.set(xscale="log", yscale="log", xlabel="what the last norm divides by")
    ax.set(ylabel="gradient of the last block's weights", xticks=range(1, 7), xticklabels=range(1, 7))
    ax.legend(loc="lower left")
    return _plain(ax)


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


def trained(shares: Sequence[float]) -> str:
    """Return which of ``TRAINED`` the mean of what is right belongs to."""
    mean = sum(shares) / len(shares)
    return TRAINED[0] if mean > 0.8 else TRAINED[1] if mean > 0.3 else TRAINED[2]


def plot_map(
    ax: Axes, depths: Sequence[int], rates: Sequence[float], sizes: Sequence[str], color: str
) -> tuple[dict[tuple[str, str], Line2D], Line2D]:
    """Draw an empty map of depth and rate; return its marks by size of the branches and ``TRAINED``, and its ring."""
    lines = dict[tuple[str, str], Line2D]()
    for size, shape in zip(sizes, "os", strict=False):
        for level, fill in zip(TRAINED, ("full", "left", "none"), strict=True):
            (lines[size, level],) = ax.plot([], [], shape, color=color, ms=8, fillstyle=fill, mfcalt="white")
    (ring,) = ax.plot([], [], "o", color=REFERENCE, ms=15, fillstyle="none")
    ax.set(xscale="log", yscale="log", xlabel="blocks")
    ax.set(xlim=(depths[0] / 1.4, depths[-1] * 1.7), ylim=(rates[0] / 1.7, rates[-1] * 1.7))
    ax.set_xticks(depths, [str(depth) for depth in depths])
    ax.set_yticks(rates, [f"{rate:g}" for rate in rates])
    ax.minorticks_off()
    return lines, ring

"""AdaLN-Zero: conditions, the gradient's route through a gate, gradients step by step, and generated digits."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from numpy.typing import ArrayLike

from residual_edu.plotting.style import BRANCH, DROPPED, GATE, GRADIENT, REFERENCE, STREAM, A, B, words_on

MARKS = [(A, "s"), (B, "o"), (REFERENCE, "^")]
AWAKE = LinearSegmentedColormap.from_list("awake", ["#E3F3EE", GRADIENT])
FAINTEST, STRONGEST = 1e-8, 1.0  # the sizes of gradients between which the colour deepens


def plot_conditions(clouds: Mapping[str, ArrayLike], ax: Axes) -> Axes:
    """Draw tokens of two numbers, ``(n, 2)`` for each of up to three conditions, with the name in each cloud."""
    for (color, mark), (name, points) in zip(MARKS, clouds.items(), strict=False):
        across, up = np.asarray(points).T
        ax.scatter(across, up, s=12, color=color, marker=mark, alpha=0.7, linewidths=0)
        ax.annotate(
            name,
            (across.mean(), up.mean()),
            color=color,
            weight="bold",
            ha="center",
            va="center",
            bbox={"boxstyle": "circle,pad=0.2", "facecolor": "white", "edgecolor": color},
        )
    ax.set(xlabel="first number", ylabel="second number", aspect="equal")
    return ax


def plot_route(gradients: Mapping[str, float], ax: Axes) -> Axes:
    """Draw one gated branch and the gradient in it: an arrow where it is not 0, dots where it is exactly 0.

    ``gradients`` holds the size of the gradient on each piece of ``ROUTE``.
    """
    ax.annotate("", (-0.4, 2), (10.4, 2), arrowprops={"arrowstyle": "-|>", "color": GRADIENT, "lw": 5})
    ax.text(10.5, 2, "loss", color=GRADIENT, weight="bold", va="center")
    for words, (place, color) in BOXES.items():
        frame = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": color, "linewidth": 1.5}
        ax.text(*place, words, color=color, ha="center", va="center", bbox=frame, zorder=3)
    for name, (start, end) in ROUTE.items():
        _way(ax, np.array(start), np.array(end), gradients[name] > 0)
    ax.set(xlim=(-0.6, 11.2), ylim=(-1.0, 2.4))
    ax.axis("off")
    return ax


def _way(ax: Axes, start: np.ndarray, end: np.ndarray, alive: bool) -> None:
    """Draw one piece of the route."""
    look = {"color": GRADIENT, "lw": 2.5} if alive else {"color": DROPPED, "lw": 1.5, "ls": ":"}
    ax.annotate("", tuple(end), tuple(start), arrowprops={"arrowstyle": "-|>" if alive else "-", **look})
    if not alive:
        ax.annotate("0", tuple((start + end) / 2), (3, 4), color=DROPPED, textcoords="offset points")


BOXES = {
    "+": ((9.4, 2.0), STREAM),
    "gate": ((8.2, 0.8), GATE),
    "f": ((5.9, 0.8), BRANCH),
    "scale, shift": ((3.7, 0.8), BRANCH),
    "norm": ((1.2, 0.8), BRANCH),
    "projection": ((6.0, -0.6), REFERENCE),
    "condition": ((2.2, -0.6), REFERENCE),
}
ROUTE = {  # from the box that the gradient leaves to the one that it should reach
    "branch": ((9.3, 1.8), (8.3, 1.05)),
    "f": ((7.5, 0.8), (6.25, 0.8)),
    "modulated": ((5.55, 0.8), (4.8, 0.8)),
    "normed": ((2.6, 0.8), (1.85, 0.8)),
    "x": ((0.7, 1.0), (0.1, 1.85)),
    "gate": ((8.1, 0.5), (6.9, -0.3)),
    "scale": ((3.8, 0.5), (5.1, -0.3)),
    "condition": ((4.9, -0.6), (3.2, -0.6)),
}


def plot_wake_up(
    gradients: ArrayLike, groups: Sequence[str], steps: Sequence[int], ax: Axes, numbers: bool = True
) -> Axes:
    """Draw gradients of groups of weights, ``(groups, steps)``: darker where larger, white where exactly 0.

    With ``numbers``, each cell shows its power of ten.
    """
    sizes = np.asarray(gradients, float)
    deep = np.log10(np.clip(sizes, FAINTEST, STRONGEST) / FAINTEST) / np.log10(STRONGEST / FAINTEST)
    field = np.where((sizes == 0)[..., None], 1.0, AWAKE(deep))
    ax.imshow(field, aspect="auto", interpolation="none")
    for (row, column), size in np.ndenumerate(sizes):
        if size == 0:
            ax.text(column, row, "0", color=DROPPED, ha="center", va="center")
        elif numbers:
            color = words_on(field[row, column])
            ax.text(column, row, f"$10^{{{np.log10(size):.0f}}}$", color=color, ha="center", va="center")
    ax.set_xticks(range(len(steps)), [str(step) for step in steps])
    ax.set_yticks(range(len(groups)), list(groups))
    ax.set_xticks(np.arange(len(steps) + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(len(groups) + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="white", lw=2)
    ax.tick_params(which="both", length=0)
    ax.spines[:].set_visible(False)
    ax.set_xlabel("steps taken")
    return ax


def plot_digits(images: ArrayLike, ax: Axes, rows: Sequence[str] = (), columns: Sequence[str] = ()) -> Axes:
    """Draw ``(rows, columns, side, side)`` images, from -1 (white) to 1 (black), as one sheet."""
    ax.imshow(mosaic(images), cmap="gray_r", vmin=-1, vmax=1, interpolation="none")
    down, across, side, _ = np.shape(images)
    ax.set_xticks((np.arange(across) + 0.5) * (side + 1) - 1, columns or [""] * across)
    ax.set_yticks((np.arange(down) + 0.5) * (side + 1) - 1, rows or [""] * down)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return ax


def mosaic(images: ArrayLike) -> np.ndarray:
    """Return ``(rows, columns, side, side)`` images side by side, with a white line after each."""
    tiles = np.pad(np.asarray(images), ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=-1)
    down, across, high, wide = tiles.shape
    return tiles.swapaxes(1, 2).reshape(down * high, across * wide)

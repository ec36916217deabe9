"""AdaLN-Zero: drawings and velocities as pictures, gradients and gates step by step, drawings by their guidance."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from numpy.typing import ArrayLike
from PIL import Image

from residual_edu.plotting.style import DROPPED, GATE, GRADIENT, A, B, words_on

AWAKE = LinearSegmentedColormap.from_list("awake", ["#E3F3EE", GRADIENT])
FAINTEST, STRONGEST = 1e-8, 1.0  # the sizes of gradients between which the colour deepens
ENLARGED, GAP = 6, 12  # pixels for one of a picture, and between two pictures
FASTEST = 2.0  # the velocity of a pixel that turns from paper to ink


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
    ax.imshow(np.clip(mosaic(images), -1, 1), cmap="gray_r", vmin=-1, vmax=1, interpolation="none")
    return _name_tiles(ax, np.shape(images), rows, columns)


def plot_velocities(images: ArrayLike, ax: Axes, rows: Sequence[str] = (), columns: Sequence[str] = ()) -> Axes:
    """Draw velocities ``(rows, columns, side, side)``: orange where ink is added, purple where it is removed."""
    tiles = mosaic(images, paper=np.nan)
    ax.imshow(tiles, cmap="PuOr_r", vmin=-FASTEST, vmax=FASTEST, interpolation="none")
    return _name_tiles(ax, np.shape(images), rows, columns)


def _name_tiles(ax: Axes, shape: tuple[int, ...], rows: Sequence[str], columns: Sequence[str]) -> Axes:
    down, across, side, _ = shape
    one = ENLARGED * side + GAP
    ax.set_xticks((np.arange(across) + 0.5) * one - GAP / 2, columns or [""] * across)
    ax.set_yticks((np.arange(down) + 0.5) * one - GAP / 2, rows or [""] * down)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return ax


def mosaic(images: ArrayLike, paper: float = -1.0) -> np.ndarray:
    """Return ``(rows, columns, side, side)`` images side by side, enlarged smoothly.

    After each is a gap of ``paper``, two pixels of the images wide.
    """
    given = np.asarray(images, np.float32)
    down, across, side, _ = given.shape
    wide = ENLARGED * side
    each = [
        Image.fromarray(one).resize((wide, wide), Image.Resampling.BICUBIC) for one in given.reshape(-1, side, side)
    ]
    tiles = np.stack([np.asarray(one) for one in each]).reshape(down, across, wide, wide)
    tiles = np.pad(tiles, ((0, 0), (0, 0), (0, GAP), (0, GAP)), constant_values=paper)
    return tiles.swapaxes(1, 2).reshape(down * (wide + GAP), across * (wide + GAP))


def plot_gates(steps: ArrayLike, gates: ArrayLike, ax: Axes) -> Axes:
    """Draw the mean size of gates over the steps, ``(steps, blocks, 2)``: the mixers' dashed, the MLPs' solid."""
    sizes = np.asarray(gates, float)
    for branch, (dash, name) in enumerate((("--", "mixers"), ("-", "MLPs"))):
        ax.plot(np.asarray(steps), sizes[:, :, branch], dash, color=GATE, lw=1.5)
        ends = sizes[-1, :, branch]
        at = (np.asarray(steps)[-1], ends.mean())
        ax.annotate(name, at, (8, 0), textcoords="offset points", color=GATE, va="center", annotation_clip=False)
    ax.set(xlabel="steps taken", ylabel="mean size of the gates", ylim=(0, None))
    return ax


def plot_weights(weights: Sequence[float], curves: Mapping[str, ArrayLike], ax: Axes) -> Axes:
    """Draw up to two measures of drawings by guidance weight, each ``(seeds, weights)``; 1 is that of real digits."""
    places = np.arange(len(weights))
    ax.axhline(1, color=DROPPED, ls=":", lw=1.5)
    for (name, rows), color, dash in zip(curves.items(), (A, B), ("--", "-"), strict=False):
        found = np.asarray(rows, float)
        ax.plot(places, found.T, dash, color=color, marker="o", ms=4, lw=1.5)
        at = (places[-1], found[:, -1].mean())
        ax.annotate(name, at, (8, 0), textcoords="offset points", color=color, va="center", annotation_clip=False)
    ax.annotate("real digits", (places[-1], 1), (0, 3), textcoords="offset points", color=DROPPED, ha="right")
    ax.set_xticks(places, [f"{weight:g}" for weight in weights])
    ax.set(xlabel="guidance", ylabel="over that of real digits", ylim=(0, None))
    return ax

"""AdaLN-Zero: drawings and velocities as pictures, gradients step by step, drawings by their guidance."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from numpy.typing import ArrayLike
from PIL import Image

from residual_course.plots.style import DROPPED, GRADIENT, A, B, words_on

AWAKE = LinearSegmentedColormap.from_list("awake", ["#E3F3EE", GRADIENT])
FAINTEST, STRONGEST = 1e-8, 1.0  # the sizes of gradients between which the colour deepens
ENLARGED, GAP = 6, 2  # pixels for one of a picture; pixels of the pictures between two of them
FASTEST = 2.0  # the velocity of a pixel that turns from paper to ink


def plot_wake_up(gradients: ArrayLike, groups: Sequence[str], steps: Sequence[int], ax: Axes) -> Axes:
    """Draw powers of ten of gradients, ``(groups, steps)``: darker where larger, white where exactly 0."""
    sizes = np.asarray(gradients, float)
    deep = np.log10(np.clip(sizes, FAINTEST, STRONGEST) / FAINTEST) / np.log10(STRONGEST / FAINTEST)
    field = np.where((sizes == 0)[..., None], 1.0, AWAKE(deep))
    ax.imshow(field, aspect="auto", interpolation="none")
    for (row, column), size in np.ndenumerate(sizes):
        if size == 0:
            ax.text(column, row, "0", color=DROPPED, ha="center", va="center")
        else:
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
    one, gap = ENLARGED * (side + GAP), ENLARGED * GAP
    ax.set_xticks((np.arange(across) + 0.5) * one - gap / 2, columns or [""] * across)
    ax.set_yticks((np.arange(down) + 0.5) * one - gap / 2, rows or [""] * down)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return ax


def mosaic(images: ArrayLike, paper: float = -1.0, enlarged: int = ENLARGED) -> np.ndarray:
    """Return ``(rows, columns, side, side)`` images side by side, enlarged smoothly.

    After each is a gap of ``paper``, two pixels of the images wide.
    """
    given = np.asarray(images, np.float32)
    down, across, side, _ = given.shape
    wide, gap = enlarged * side, enlarged * GAP
    each = [
        Image.fromarray(one).resize((wide, wide), Image.Resampling.BICUBIC) for one in given.reshape(-1, side, side)
    ]
    tiles = np.stack([np.asarray(one) for one in each]).reshape(down, across, wide, wide)
    tiles = np.pad(tiles, ((0, 0), (0, 0), (0, gap), (0, gap)), constant_values=paper)
    return tiles.swapaxes(1, 2).reshape(down * (wide + gap), across * (wide + gap))


def plot_weights(weights: Sequence[float], curves: Mapping[str, ArrayLike], ax: Axes) -> Axes:
    """Draw up to two measures of drawings by guidance weight, each ``(seeds, weights)``; 1 is that of real digits."""
    places = np.asarray(weights, float)  # to scale
    ax.axhline(1, color=DROPPED, ls=":", lw=1.5)
    for (name, rows), color, dash in zip(curves.items(), (A, B), ("--", "-"), strict=False):
        found = np.asarray(rows, float)
        ax.plot(places, found.T, dash, color=color, marker="o", ms=4, lw=1.5)
        at = (places[-1], found[:, -1].mean())
        ax.annotate(name, at, (8, 0), textcoords="offset points", color=color, va="center", annotation_clip=False)
    ax.annotate("real digits", (places[-1], 1), (0, 3), textcoords="offset points", color=DROPPED, ha="right")
    ax.set_xticks([tick for tick in places if tick == int(tick)])
    ax.set(xlabel="guidance", ylabel="over that of real digits", ylim=(0, None))
    return ax

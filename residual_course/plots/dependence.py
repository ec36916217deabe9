"""What outputs depend on: flips that are learned, positions that move, the frames of a movie."""

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from residual_course.plots.style import DROPPED, REFERENCE, SERIES, A


def plot_flips(runs: Mapping[str, Sequence[tuple[Any, Sequence[float], float]]], title: str) -> Figure:
    """Draw training losses and name what was read; ``runs`` has, for each name, a network, its losses, its share."""
    figure = Figure(figsize=(6, 3.2))
    ax = figure.add_subplot()
    ax.axhline(log(2), color=REFERENCE, lw=0.9)
    looks = SERIES if len(runs) > 1 else SERIES[:1]
    said: list[str] = []
    for (color, dash, _), (name, seeds) in zip(looks, runs.items(), strict=False):
        for _, losses, _ in seeds:
            ax.plot(losses, dash, color=color, lw=1.3)
        shares = ", ".join(f"{share:.0%}" for *_, share in seeds)
        words = f"{name}: {shares} predicted"
        ax.annotate(
            words, (0.98, 0.94 - 0.1 * len(said)), xycoords="axes fraction", color=color, weight="bold", ha="right"
        )
        said.append(f"{words}, loss from {seeds[0][1][0]:.2f} to {float(np.mean(seeds[0][1][-10:])):.2f}.")
    ax.text(0.98, log(2) - 0.02, "guessing: 0.69", ha="right", va="top", transform=ax.get_yaxis_transform())
    ax.set(xlabel="training step", ylabel="training loss", xlim=(0, len(losses)), ylim=(0, 1), title=title)
    figure.set_label(f"Training loss against the step, three seeds each. {' '.join(said)}")
    return figure


def plot_moved(maps: Mapping[str, ArrayLike], title: str) -> Figure:
    """Draw for each name which positions of a picture move, ``(height, width)`` of true and false."""
    figure = Figure(figsize=(6, 2.9))
    for ax, (name, found) in zip(figure.subplots(1, len(maps)), maps.items(), strict=True):
        table = np.asarray(found)
        ax.imshow(table, cmap=ListedColormap(["white", A]), vmin=0, vmax=1)
        height, width = table.shape
        ax.set_xticks(np.arange(width + 1) - 0.5, [""] * (width + 1))
        ax.set_yticks(np.arange(height + 1) - 0.5, [""] * (height + 1))
        ax.grid(color=DROPPED, lw=0.6)
        ax.tick_params(length=0)
        ax.set_title(f"{name}: {table.sum()} of {table.size} move", weight="normal", size=11)
    figure.suptitle(title, weight="bold")
    counts = "; ".join(f"{name}: {np.asarray(found).sum()}" for name, found in maps.items())
    figure.set_label(f"Squares of positions; those whose output moves are dark. {counts}.")
    return figure


def plot_movie(frames: ArrayLike, title: str) -> Figure:
    """Draw the frames of a movie, ``(frames, height, width)``, one after the other."""
    figure = Figure(figsize=(6, 1.6))
    images = np.asarray(frames, float)
    for number, (ax, frame) in enumerate(zip(figure.subplots(1, len(images)), images, strict=True), start=1):
        ax.imshow(frame, cmap="gray_r", vmin=0, vmax=1)
        ax.set(xticks=[], yticks=[])
        ax.set_xlabel(f"frame {number}")
    figure.suptitle(title, weight="bold")
    figure.set_label(f"{len(images)} frames of a handwritten digit, a column further to the right in each.")
    return figure

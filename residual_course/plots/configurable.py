"""A language model: what it wrote, the loss at each position, where attention goes and why, losses over the steps."""

import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from residual_course.plots.style import DROPPED, REFERENCE, SERIES, A

WINDOW = 9  # positions or steps over which a curve is averaged


def smoothed(curve: ArrayLike, window: int = WINDOW) -> tuple[np.ndarray, np.ndarray]:
    """Return the middles of the windows and the means over them; a mean stands above its own middle."""
    heights = np.asarray(curve, float)
    size = min(window, len(heights))
    means = np.convolve(heights, np.full(size, 1 / size), mode="valid")
    return np.arange(len(means)) + (size - 1) / 2, means


def _draw_series(curves: Mapping[str, tuple[np.ndarray, np.ndarray]], ax: Axes) -> None:
    """Draw each curve with its name at its end; one alone is solid."""
    looks = SERIES if len(curves) > 1 else SERIES[1:]
    for (name, (x, y)), (color, dash, _) in zip(curves.items(), looks, strict=False):
        ax.plot(x, y, color=color, ls=dash, lw=1.8)
        ax.annotate(name, (x[-1], y[-1]), (6, 0), textcoords="offset points", color=color, weight="bold", va="center")


def plot_written(text: str, known: Collection[str], trained: int, ax: Axes, columns: int = 32) -> Axes:
    """Draw ``text`` in rows; words that are not ``known`` are coloured and underlined, and a line marks ``trained``."""
    real = set(known)
    strange = [False] * len(text)
    for word in re.finditer("[A-Za-z]+", text):
        cut = word.end() == len(text)  # then it may be the beginning of a known one
        if word[0] not in real and not (cut and any(str(one).startswith(word[0]) for one in real)):
            strange[word.start() : word.end()] = [True] * len(word[0])
    for at, sign in enumerate(text):
        row, column = divmod(at, columns)
        color = A if strange[at] else REFERENCE
        ax.text(column + 0.5, row + 0.5, sign, color=color, family="monospace", size=13, ha="center", va="center")
        if strange[at]:
            ax.plot([column, column + 1], [row + 0.92] * 2, color=A, lw=1)
    rows = -(-len(text) // columns)
    ax.plot([0, columns], [trained / columns] * 2, color=REFERENCE, lw=1, ls=":")
    for place, words in ((trained / columns / 2, f"{trained} characters:\nas in training"), ((rows + 2) / 2, "beyond")):
        ax.text(columns + 0.7, place, words, color=REFERENCE, size=11, va="center")
    ax.set(xlim=(0, 1.42 * columns), ylim=(rows + 0.1, -0.1))
    ax.axis("off")
    return ax


def _mark_length(trained: int, ax: Axes) -> None:
    """Draw a line at the length that was trained, with its number."""
    ax.axvline(trained, color=REFERENCE, lw=1, ls=":")
    ax.annotate(f"trained to {trained}", (trained, 1), (4, -12), xycoords=("data", "axes fraction"),
                textcoords="offset points", color=REFERENCE)  # fmt: skip


def plot_by_position(curves: Mapping[str, ArrayLike], trained: int, ax: Axes) -> Axes:
    """Draw losses over the position, averaged over nine, with a line at the length that was ``trained``."""
    _draw_series({name: smoothed(curve) for name, curve in curves.items()}, ax)
    _mark_length(trained, ax)
    ax.set(xlabel="position", ylabel="loss")
    return ax


def plot_terms(terms: Mapping[str, ArrayLike], trained: int, ax: Axes, total: str | None = None) -> Axes:
    """Draw terms of a score over the distance of the key; the one named ``total`` is a thick line."""
    for (name, term), (color, dash, _) in zip(terms.items(), SERIES, strict=False):
        look: dict[str, Any] = (
            {"color": DROPPED, "lw": 3.5, "alpha": 0.6, "zorder": 1}
            if name == total
            else {"color": color, "ls": dash, "lw": 1.8}
        )
        ax.plot(np.asarray(term, float), label=name, **look)
    _mark_length(trained, ax)
    ax.axhline(0, color=REFERENCE, lw=0.8)
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    ax.set(xlabel="distance of the key", ylabel="mean term of the score")
    return ax


def plot_losses(losses: Mapping[str, ArrayLike], ax: Axes, window: int = 15) -> Axes:
    """Draw losses over the steps, averaged over ``window``, each mean above the middle of its steps."""
    _draw_series({name: smoothed(curve, window) for name, curve in losses.items()}, ax)
    ax.set(xlabel="step", ylabel="loss")
    return ax

"""The residual block: trainings, signals of one to three dimensions, branches' shares, blocks with a fault."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from residual_edu.plotting.style import BRANCH, DROPPED, GRADIENT, REFERENCE, SERIES, STREAM, A, B


def plot_trainings(curves: Mapping[str, ArrayLike], ax: Axes) -> Axes:
    """Draw losses over the steps, ``(seeds, steps)`` for each of at most three names, named in a legend."""
    for (name, values), (color, dash, _) in zip(curves.items(), SERIES, strict=False):
        rows = np.asarray(values, float)
        steps = rows.shape[1]
        lines = ax.plot(rows.T, color=color, ls=dash, lw=1.1)
        lines[0].set_label(name)
    ax.legend(loc="upper right", labelcolor="linecolor")
    ax.set(xlabel="steps taken", ylabel="loss", xlim=(0, steps), ylim=(0, None))
    return ax


def plot_text(text: str, ax: Axes) -> Axes:
    """Draw a text as a row of boxes, one letter in each: a signal of one dimension."""
    for place, letter in enumerate(text):
        ax.add_patch(Rectangle((place, 0), 1, 1, facecolor="white", edgecolor=STREAM))
        ax.text(place + 0.5, 0.47, letter, ha="center", va="center")
    ax.set(xlim=(-0.1, len(text) + 0.1), ylim=(-0.1, 1.1), aspect="equal")
    ax.axis("off")
    return ax


def plot_volume(volume: ArrayLike, ax: Axes, step: float = 2.5) -> Axes:
    """Draw a ``(depth, height, width)`` volume, from 0 (white) to 1 (black), as sheets; the first is on top.

    A volume of one sheet is an image.
    """
    sheets = np.asarray(volume, float)
    depth, height, width = sheets.shape
    for place in reversed(range(depth)):
        x = y = step * place
        sheet = (x, x + width, y, y + height)
        ax.imshow(sheets[place], cmap="gray_r", vmin=0, vmax=1, extent=sheet, zorder=2 * (depth - place))
        frame = {"facecolor": "none", "edgecolor": STREAM, "zorder": 2 * (depth - place) + 1}
        ax.add_patch(Rectangle((x, y), width, height, **frame))
    far = step * (depth - 1) + 0.2
    ax.set(xlim=(-0.2, width + far), ylim=(-0.2, height + far), aspect="equal")
    ax.axis("off")
    return ax


def plot_answers(answers: ArrayLike, ax: Axes) -> Axes:
    """Draw ``(shown, asked)`` shares of a yes, white for 0 and dark for 1, rows and columns numbered from 0."""
    answers = np.asarray(answers, float)
    ax.imshow(answers, cmap="Blues", vmin=0, vmax=1, interpolation="none")
    ax.set_xticks(range(answers.shape[1]))
    ax.set_yticks(range(answers.shape[0]))
    ax.set(xlabel="asked for", ylabel="digit shown")
    ax.tick_params(length=0)
    return ax


def plot_branch_shares(shares: ArrayLike, names: Sequence[str], ax: Axes, color: str = BRANCH) -> Axes:
    """Draw ``(branches, blocks)`` shares as dots whose area is the share, each with its percentage under it."""
    shares = np.asarray(shares, float)
    rows, blocks = np.indices(shares.shape)
    ax.scatter(blocks + 1, rows, s=450 * np.nan_to_num(shares), color=color, alpha=0.85, lw=0)
    for row, block in np.ndindex(*shares.shape):
        words = "off" if np.isnan(shares[row, block]) else f"{100 * shares[row, block]:.0f} %"
        ax.text(block + 1, row + 0.27, words, ha="center", va="top", color=REFERENCE)
    ax.set_yticks(range(len(names)), names)
    ax.set_xticks(range(1, shares.shape[1] + 1))
    ax.set(xlabel="block", xlim=(0.5, shares.shape[1] + 0.5), ylim=(len(names) - 0.4, -0.5))
    ax.tick_params(length=0)
    return ax


def plot_patient(patient: Sequence[ArrayLike], healthy: Sequence[ArrayLike], ax: Axes, low: float = 1e-2) -> Axes:
    """Draw the stream, its gradient and that of the MLPs' weights along a stack; dashed, those of a healthy one.

    The first two are ``(blocks + 1,)``, the last ``(blocks,)``, drawn halfway between. Values below
    ``low`` are drawn at ``low``.
    """
    looks = ((STREAM, "", 0), (GRADIENT, "^", 0), (A, "s", 0.5))
    for curves, style in ((healthy, {"ls": "--", "lw": 1.0}), (patient, {"lw": 2.0})):
        for values, (color, mark, start) in zip(curves, looks, strict=True):
            heights = np.maximum(np.asarray(values, float), low)
            ax.plot(np.arange(len(heights)) + start, heights, color=color, marker=mark, ms=4, **style)
    ax.hlines(1, 0, np.asarray(healthy[0]).size - 1, color=DROPPED, lw=0.6, zorder=0)
    ax.set(yscale="log", xlabel="blocks passed", ylabel="root mean square")
    return ax


def plot_visitors(images: ArrayLike, lists: Sequence[Sequence[int]], verdicts: Sequence[bool], ax: Axes) -> Axes:
    """Draw ``(n, side, side)`` images from 0 to 1 in a row, each with its list above and its verdict below."""
    images = np.asarray(images, float)
    wide = images.shape[-1]
    for place, (image, names, verdict) in enumerate(zip(images, lists, verdicts, strict=True)):
        left = 1.4 * wide * place
        ax.imshow(image, cmap="gray_r", vmin=0, vmax=1, extent=(left, left + wide, 0, wide))
        words: dict[str, Any] = {"ha": "center"}
        ax.text(left + wide / 2, wide + 1, " ".join(map(str, names)), va="bottom", color=REFERENCE, **words)
        color, word = (B, "yes") if verdict else (DROPPED, "no")
        ax.text(left + wide / 2, -1, word, va="top", color=color, weight="bold", **words)
    ax.set(xlim=(-1, 1.4 * wide * len(images)), ylim=(-0.6 * wide, 1.6 * wide), aspect="equal")
    ax.axis("off")
    return ax

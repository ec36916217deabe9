"""The residual block: a signal of one dimension, and a stack with a fault beside a healthy one."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from residual_course.plots.style import DROPPED, GRADIENT, STREAM, A


def plot_text(text: str, ax: Axes) -> Axes:
    """Draw a text as a row of boxes, one letter in each: a signal of one dimension."""
    for place, letter in enumerate(text):
        ax.add_patch(Rectangle((place, 0), 1, 1, facecolor="white", edgecolor=STREAM))
        ax.text(place + 0.5, 0.47, letter, ha="center", va="center")
    ax.set(xlim=(-0.1, len(text) + 0.1), ylim=(-0.1, 1.1), aspect="equal")
    ax.axis("off")
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

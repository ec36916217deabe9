"""The training losses of a plain and a residual stack."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from residual_course.plots.style import REFERENCE, A, B


def plot_two_losses(losses: Mapping[str, ArrayLike], ax: Axes, guessing: float) -> Axes:
    """Draw the training losses of two networks, ``(seeds, steps)`` each, and the loss of ``guessing``."""
    for (name, curves), ink, dash in zip(losses.items(), (A, B), ("--", "-"), strict=True):
        rows = np.asarray(curves, float)
        ax.plot(rows.T, dash, color=ink, linewidth=1.2)
        middle = rows.shape[1] // 2
        height = rows[:, middle : middle + rows.shape[1] // 4].max() + 0.08  # above what it stands over
        ax.text(middle, height, name, color=ink, weight="bold")
    ax.axhline(guessing, color=REFERENCE, linewidth=0.8)
    ax.text(12, guessing - 0.06, f"guessing at random: {guessing:.3f}", va="top")
    ax.set(xlabel="step", ylabel="training loss", ylim=(-0.05, 3))
    return ax

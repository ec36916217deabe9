"""The pictures of plain and residual stacks: losses, sizes along a stack, and what a trained one does without parts."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from residual_course.plots.style import GATE, GRADIENT, REFERENCE, SERIES, STREAM, A, B

# Ink and dash of a size along a stack; ``plot_along`` takes these names.
LOOKS = {
    "x": (STREAM, "-"),
    "differences": (B, "--"),
    "gradient": (GRADIENT, "-."),
    "weight gradient": (A, "-"),
    "eps 1e-08": (A, "-"),
    "eps 1e-30": (REFERENCE, "-."),
    "x + f(x)": (A, "--"),
    "x + f(norm(x))": (STREAM, "-"),
    "x + f(x)/√L": (GATE, "-."),
}


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


def plot_along(sizes: Mapping[str, ArrayLike], laws: Mapping[str, ArrayLike], ax: Axes, first: int = 0) -> Axes:
    """Draw sizes at each place of a stack, ``(seeds, places)`` for each name of ``LOOKS``, on a logarithmic axis.

    Args:
        sizes: the sizes, one line a seed.
        laws: sizes on paper, ``(places,)`` each, drawn as thin solid lines.
        ax: where to draw; ``label_along`` writes the names.
        first: the number of the first place: 0 between the blocks, 1 in them.
    """
    for law in laws.values():
        ax.plot(first + np.arange(np.shape(law)[-1]), np.asarray(law, float), color=REFERENCE, linewidth=0.8)
    for name, values in sizes.items():
        ink, dash = LOOKS[name]
        rows = np.atleast_2d(np.asarray(values, float))
        ax.plot(first + np.arange(rows.shape[-1]), rows.T, dash, color=ink, linewidth=1.3)
    last = first + max(np.shape(values)[-1] for values in sizes.values()) - 1
    ax.set(yscale="log", xlabel="block" if first else "blocks passed", xlim=(first, last))
    ax.set_xticks([first, *range(max(last // 4, 1), last + 1, max(last // 4, 1))])
    ax.minorticks_off()
    return ax


def label_along(ax: Axes, places: Mapping[str, tuple[float, float]]) -> Axes:
    """Write names of ``LOOKS`` in their inks, each beginning at a place in data coordinates."""
    for name, (x, y) in places.items():
        ax.text(x, y, name, color=LOOKS[name][0], weight="bold", va="center")
    return ax


def plot_parts(cut: Mapping[str, ArrayLike], without: Mapping[str, ArrayLike], figure: Figure) -> list[Axes]:
    """Draw what trained stacks classify rightly after their first blocks alone, and without one block.

    Args:
        cut: for each stack, the share that is right if the head reads after 0, 1, ... blocks, ``(seeds, blocks + 1)``.
        without: for each stack, the share that is right without block 1, 2, ..., ``(seeds, blocks)``.
        figure: where to draw.
    """
    left, right = figure.subplots(1, 2, sharey=True)
    for ax, shares, first, label in ((left, cut, 0, "blocks before the head"), (right, without, 1, "block deleted")):
        for (ink, dash, mark), (name, seeds) in zip(SERIES, shares.items(), strict=False):
            rows = np.asarray(seeds, float)
            across = first + np.arange(rows.shape[1])
            ax.plot(across, rows.mean(0), dash, color=ink, label=name)
            ax.plot(across, rows.T, mark, color=ink, markerfacecolor="none", markersize=3, linewidth=0)
        ax.set(xlabel=label, ylim=(-0.03, 1.03))
    left.set_ylabel("share right (line: mean)")
    right.legend(loc="center", fontsize=11)
    return [left, right]

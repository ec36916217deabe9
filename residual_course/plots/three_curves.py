"""Curves along a stack: signal, stream gradient and weight gradient; and what a probe reads beside what is learned."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from residual_course.plots.style import DROPPED, GRADIENT, REFERENCE, STREAM, A, B

COLORS = {"signal": STREAM, "stream gradient": GRADIENT, "weight gradient": A}
COLORS |= {"x + f(x)": A, "x + f(norm(x))": B, "f without ReLU": REFERENCE}
DASHES = {"signal": "-", "stream gradient": "-.", "weight gradient": "--"}
DASHES |= {"x + f(x)": "--", "x + f(norm(x))": "-", "f without ReLU": "-."}


def plot_three_curves(curves: Mapping[str, ArrayLike], ax: Axes) -> Axes:
    """Draw sizes against the place along a stack, ``(seeds, places)`` each, one line a seed, on a log scale.

    ``curves`` has some of "signal" and "stream gradient", measured between the blocks, and "weight gradient",
    measured in them: one place fewer, drawn halfway. ``label_curves`` writes their names.
    """
    longest = max(np.shape(values)[-1] for values in curves.values())
    for name, values in curves.items():
        rows = np.atleast_2d(np.asarray(values, float))
        places = np.arange(rows.shape[-1]) + (0.5 if name == "weight gradient" else 0)
        ax.plot(places, rows.T, color=COLORS[name], ls=DASHES[name], lw=1.6)
    ax.set(yscale="log", xlabel="blocks passed", ylabel="root mean square", xlim=(0, longest))
    ax.set_xticks(range(0, longest + 1, max(longest // 4, 1)))
    return ax


def label_curves(ax: Axes, places: Mapping[str, tuple[float, float]]) -> Axes:
    """Write the name of each curve in its colour, beginning at a place in data coordinates."""
    for name, (x, y) in places.items():
        ax.text(x, y, name, color=COLORS[name], weight="bold", va="center")
    return ax


def plot_two_stacks(weights: Mapping[str, ArrayLike], ax: Axes) -> Axes:
    """Draw the weight gradients of "x + f(x)" and "x + f(norm(x))", ``(seeds, blocks)`` each, on a log scale."""
    for name, values in weights.items():
        rows = np.atleast_2d(np.asarray(values, float))
        ax.plot(1 + np.arange(rows.shape[-1]), rows.T, color=COLORS[name], ls=DASHES[name], lw=1.4)
    ax.set(yscale="log", xlabel="block", ylabel="root mean square", xlim=(1, rows.shape[-1]))
    return ax


def plot_read(shares: Mapping[str, ArrayLike], places: Sequence[int], ax: Axes) -> Axes:
    """Draw the share of digits that is read after ``places`` blocks, ``(seeds, places)`` for each of ``COLORS``."""
    for name, values in shares.items():
        ax.plot(list(places), np.asarray(values, float).T, color=COLORS[name], ls=DASHES[name], lw=1.4)
    ax.axhline(0.1, color=DROPPED, lw=0.8)
    ax.text(0.5, 0.115, "guessing", color=DROPPED, va="bottom")
    ax.set(xlabel="blocks passed", ylabel="share read", xlim=(0, places[-1]), ylim=(0, 1.03))
    ax.set_xticks(range(0, places[-1] + 1, max(places[-1] // 4, 1)))
    return ax


def plot_reconstruction(paper: Sequence[float], ax: Axes) -> Axes:
    """Add what was computed for each block, ``(blocks,)``, as dots to the weight gradients of ``plot_three_curves``."""
    ax.plot(np.arange(len(paper)) + 0.5, paper, "o", color=REFERENCE, ms=3.5, mfc="none", label="reconstructed")
    ax.lines[0].set_label("measured")
    ax.legend(loc="upper right")
    return ax


def plot_probe(points: Mapping[str, tuple[Sequence[float], Sequence[float]]], ax: Axes) -> Axes:
    """Draw what is learned, against what a probe reads before training, one dot a seed and one mark a group.

    Args:
        points: for each network, the shares that a probe reads and those that are right after training, a seed each.
            Its name says to which group it belongs: "alike", with a norm, turning, or none of these.
        ax: where to draw.
    """
    groups = {"alike": (DROPPED, "s"), "norm": (B, "o"), "turning": (REFERENCE, "^"), "": (A, "x")}
    words = {"alike": "digits alike", "norm": "with norms", "turning": "turning weights", "": "no norms"}
    drawn = set()
    for name, (probe, trained) in points.items():
        group = next(key for key in groups if key in name)
        ink, mark = groups[group]
        fill = ink if mark == "x" else "none"
        label = None if group in drawn else words[group]
        ax.plot(probe, trained, mark, color=ink, mfc=fill, ms=6, label=label)
        drawn.add(group)
    ax.axhline(0.1, color=DROPPED, lw=0.8)
    ax.set(
        xlabel="probe on untrained blocks: share right", ylabel="trained: share right", xlim=(0, 1.02), ylim=(0, 1.02)
    )
    ax.text(0.02, 0.115, "guessing", color=DROPPED, va="bottom")
    ax.legend(loc="upper left")
    return ax

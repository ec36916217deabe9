"""Dropout: the gap that it closes, its mean and variance, what a mask drops, how many branches stay, and noise."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from residual_course.plots.style import BRANCH, DROPPED, PALE, REFERENCE, SERIES, STREAM, A, B


def plot_moments(rates: ArrayLike, means: ArrayLike, variances: ArrayLike, ax: Axes) -> Axes:
    """Draw the mean and variance of a 1 after dropout over the rate: measured dots, laws as lines."""
    rates = np.asarray(rates, float)
    fine = np.linspace(0, rates.max(), 200)
    for law, seen, color, dash, words, at in (
        (np.ones_like(fine), means, B, "-", "mean: 1", 50),
        (fine / (1 - fine), variances, A, "--", "variance: p / (1 − p)", 165),
    ):
        ax.plot(fine, law, color=color, ls=dash, lw=1.5)
        ax.plot(rates, seen, "o", color=color, ms=7, clip_on=False)
        ax.annotate(words, (fine[at], law[at]), (-8, 7), color=color, ha="right", textcoords="offset points")
    ax.set(xlabel="p, the rate", ylabel="over all draws", xlim=(0, rates.max() + 0.02), ylim=(-0.1, None))
    return ax


def plot_coins(coins: ArrayLike, ax: Axes) -> Axes:
    """Draw a mask of ones and zeros, ``(samples, features)``: kept entries in the branch's colour, the rest pale."""
    field = np.asarray(coins, float) > 0
    ax.imshow(field, cmap=ListedColormap([PALE, BRANCH]), vmin=0, vmax=1, aspect="auto", interpolation="none")
    rows, columns = field.shape
    ax.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="white", lw=1.5)
    ax.tick_params(which="both", length=0, labelleft=False, labelbottom=False)
    ax.set(xlabel="feature", ylabel="sample")
    return ax


def plot_depths_left(exact: ArrayLike, seen: ArrayLike, ax: Axes) -> Axes:
    """Draw the probability that 0, 1, ..., n branches stay: ``exact`` as bars, ``seen`` as dots, uniform as a line."""
    exact = np.asarray(exact, float)
    counts = np.arange(len(exact))
    ax.bar(counts, exact, color=BRANCH, alpha=0.35, width=0.8)
    ax.plot(counts, seen, "o", color=BRANCH, ms=6)
    top = counts[exact.argmax()]
    ax.annotate(
        "measured, on the exact bars", (top, exact.max()), (0, 8), color=BRANCH, ha="center", textcoords="offset points"
    )
    uniform = 1 / (len(exact) - 1)
    ax.plot([0.5, counts[-1] + 0.5], [uniform] * 2, color=DROPPED, ls="--", lw=1.5)
    ax.annotate("uniform, as some write", (0.6, uniform), (0, 5), color=DROPPED, textcoords="offset points")
    ax.set(xlabel="branches that stay", ylabel="probability", xticks=counts, ylim=(0, exact.max() * 1.18))
    return ax


def plot_gap(curves: Mapping[tuple[str, float | int], ArrayLike], steps: Sequence[int], figure: Figure) -> None:
    """Draw test accuracies with and without dropout, a panel for each kind of labels, a line a seed.

    Args:
        curves: ``(seeds, steps)`` for each kind of labels and rate; one rate of each kind is 0.
        steps: where along the training they were measured.
        figure: where to draw; the panels share their axes.
    """
    kinds = list(dict.fromkeys(kind for kind, _ in curves))
    panels = np.atleast_1d(figure.subplots(1, len(kinds), sharey=True))
    for ax, kind in zip(panels, kinds, strict=True):
        for p in sorted(p for other, p in curves if other == kind):
            rows = np.asarray(curves[kind, p], float)
            ink, dash = (B, "-") if p else (A, "--")
            ax.plot(list(steps), rows.T, dash, color=ink, lw=1.3)
            if ax is panels[0]:
                height = rows[:, -1].max() + 0.03 if p else rows[:, -1].min() - 0.03
                ax.text(steps[-1], height, f"p = {p:g}", color=ink, weight="bold", ha="right", va="center")
        ax.set_title(f"labels {kind}", weight="normal", loc="center")
        ax.set(xlabel="step", xlim=(0, steps[-1]), ylim=(0.55, 1))
    panels[0].set_ylabel("test digits right")


def plot_memorised(curves: Mapping[str, ArrayLike], steps: Sequence[int], ax: Axes) -> Axes:
    """Draw the share of wrong labels that is memorised, ``(seeds, steps)`` for each of at most three names."""
    for (name, values), (ink, dash, mark) in zip(curves.items(), SERIES, strict=False):
        rows = np.asarray(values, float)
        ax.plot(list(steps), rows.T, dash, marker=mark, ms=4, color=ink, lw=1.3)
        ax.annotate(
            name,
            (steps[-1], rows[:, -1].mean()),
            (6, 0),
            color=ink,
            va="center",
            textcoords="offset points",
            weight="bold",
        )
    ax.set(xlabel="step", ylabel="wrong labels memorised", xlim=(0, steps[-1]), ylim=(0, 1.03))
    return ax


def plot_noise(noise: ArrayLike, ax: Axes, depth: int = 48) -> Axes:
    """Draw dropout's noise over the signal after each block; the axes' first line is the curve."""
    ax.plot(range(len(np.asarray(noise))), noise, color=STREAM)
    ax.axhline(1, color=REFERENCE, lw=1, ls=":")
    ax.text(depth, 1.08, "as large as the signal", color=REFERENCE, ha="right", va="bottom")
    ax.set(yscale="log", ylim=(3e-2, 3e2), xlim=(0, depth), xlabel="blocks passed", ylabel="noise / signal")
    return ax

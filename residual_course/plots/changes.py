"""Pictures of letters, runs beside each other or by rate, two changes in four runs, and weights on a grid."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from residual_course.plots.style import DROPPED, PALE, REFERENCE, SERIES, B, words_on


def plot_letters(pictures: ArrayLike, rows: int, ax: Axes) -> Axes:
    """Draw pictures, (count, height, width), ink dark, in ``rows`` rows, one after the other."""
    each = np.asarray(pictures, float)
    count, height, width = each.shape
    framed = np.pad(each, ((0, 0), (1, 1), (1, 1)))
    table = framed.reshape(rows, count // rows, height + 2, width + 2).swapaxes(1, 2)
    ax.imshow(table.reshape(rows * (height + 2), -1), cmap="Greys", vmin=0, vmax=1)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    return ax


def plot_runs(found: Mapping[str, ArrayLike], ax: Axes, beside: str | None = None, label: str = "test loss") -> Axes:
    """Draw the numbers of each name as dots on a line, with their mean; the range of ``beside`` is shaded."""
    rows = len(found) - 1 - np.arange(len(found))
    if beside is not None:
        band = np.asarray(found[beside], float)
        ax.axvspan(band.min(), band.max(), color=PALE, lw=0)
    for row, (name, numbers) in zip(rows, found.items(), strict=True):
        values = np.asarray(numbers, float)
        color = REFERENCE if name == beside else B
        ax.plot([values.min(), values.max()], [row, row], color=color, lw=1)
        ax.plot(values, np.full(len(values), row), "o", color=color, ms=6, fillstyle="none", mew=1.5)
        ax.plot([values.mean()] * 2, [row - 0.25, row + 0.25], color=color, lw=2)
    ax.set_yticks(rows, list(found))
    ax.set(xlabel=label, ylim=(-0.6, len(found) - 0.4))
    return ax


def plot_four(found: Mapping[str, tuple[ArrayLike, ArrayLike]], ends: Sequence[str], ax: Axes) -> Axes:
    """Draw the runs of two changes: for each name a line from its numbers without the other change to those with it.

    ``ends`` name the two places on the horizontal axis.
    """
    top = max(found, key=lambda name: float(np.mean(np.asarray(found[name][1], float))))
    for (name, pair), (color, dash, mark) in zip(found.items(), SERIES, strict=False):
        values = [np.asarray(numbers, float) for numbers in pair]
        for place, numbers in enumerate(values):
            ax.plot(np.full(len(numbers), place), numbers, mark, color=color, ms=5, fillstyle="none", mew=1.5)
        means = [numbers.mean() for numbers in values]
        ax.plot([0, 1], means, color=color, ls=dash, lw=1.5)
        away = (10, 6 if name == top else -6)  # so that two names at one height do not overlap
        ax.annotate(name, (1, means[1]), away, textcoords="offset points", color=color, weight="bold", va="center")
    ax.set_xticks([0, 1], list(ends))
    ax.set_xlim(-0.2, 1.9)
    ax.set_ylim(bottom=0)
    return ax


def plot_rates(found: Mapping[str, Mapping[float, Sequence[float]]], ax: Axes, label: str = "test loss") -> Axes:
    """Draw the numbers of each name, at most four, by learning rate: a mark a seed, and a line through the means."""
    for (name, by_rate), (color, dash, mark) in zip(found.items(), SERIES, strict=False):
        rates = sorted(by_rate)
        for rate in rates:
            ax.semilogx([rate] * len(by_rate[rate]), by_rate[rate], mark, color=color, ms=5, fillstyle="none", mew=1.2)
        ax.semilogx(rates, [float(np.mean(by_rate[rate])) for rate in rates], color=color, ls=dash, label=name)
    every = sorted({rate for by_rate in found.values() for rate in by_rate})
    ax.set_xticks(every, [f"{rate:g}" for rate in every])
    ax.minorticks_off()
    ax.set(xlabel="learning rate", ylabel=label)
    ax.set_ylim(bottom=0)
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return ax


def plot_on_grid(numbers: ArrayLike, ax: Axes, digits: int = 2) -> Axes:
    """Draw a table of numbers, (rows, columns), as shaded cells with the numbers in them."""
    table = np.asarray(numbers, float)
    image = ax.imshow(table, cmap="Blues")
    for (row, column), number in np.ndenumerate(table):
        color = words_on(image.cmap(image.norm(number)))
        ax.text(column, row, f"{number:.{digits}f}", ha="center", va="center", color=color)
    ax.set(xticks=[], yticks=[], xlabel="column", ylabel="row")
    ax.spines[:].set_color(DROPPED)
    return ax


def plot_over(picture: ArrayLike, weights: ArrayLike, ax: Axes) -> Axes:
    """Draw the outline of a picture, (height, width), over shaded weights of its patches, (rows, columns)."""
    ink, table = np.asarray(picture, float), np.asarray(weights, float)
    rows, columns = table.shape
    extent = (0.0, float(columns), float(rows), 0.0)
    ax.imshow(table, extent=extent, cmap="Blues", vmin=0)
    ax.contour(ink, levels=[0.5], colors=[REFERENCE], linewidths=1.2, extent=extent, origin="upper")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_color(DROPPED)
    return ax

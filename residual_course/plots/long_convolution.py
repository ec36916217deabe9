"""Long convolutions: the matrix of the taps, kernels over their positions, and signed tables."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from residual_course.plots.mixing_matrix import LOUDNESS, SILENCE
from residual_course.plots.style import DROPPED, REFERENCE, A, B, words_on

SIGNED = LinearSegmentedColormap.from_list("signed", [A, "#F3DDE7", "#DFF0E4", B])  # below 0 and above it
HALO = [withStroke(linewidth=5, foreground="white")]  # so that a ring is seen on dark and on pale


def plot_taps(matrix: ArrayLike, ax: Axes) -> Axes:
    """Draw the matrix of a convolution, (output positions, input positions), each tap written out, 0 in grey."""
    taps = np.asarray(matrix, float) + 0.0  # no -0
    top = 1.3 * np.abs(taps).max() or 1.0
    ax.set_facecolor(SILENCE)
    ax.imshow(np.ma.masked_equal(taps, 0), cmap=SIGNED, vmin=-top, vmax=top)
    for (row, column), tap in np.ndenumerate(taps):
        color = words_on(SIGNED(0.5 + tap / (2 * top))) if tap else REFERENCE
        ax.text(column, row, f"{tap:g}".replace("-", "−"), ha="center", va="center", color=color)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks(range(len(taps)))
    ax.set(xlabel="input position", ylabel="output position")
    return ax


def plot_ridges(positions: ArrayLike, kernels: Mapping[str, ArrayLike], ax: Axes, unit: str = "position p") -> Axes:
    """Draw named kernels over their positions, one under the other, each scaled by its largest tap."""
    places = np.asarray(positions, float)
    for row, (name, kernel) in enumerate(kernels.items()):
        taps = np.asarray(kernel, float)
        height = 0.45 / max(float(np.abs(taps).max()), 1e-12)
        ax.plot(places[[0, -1]], [-row, -row], color=DROPPED, lw=0.6)
        ax.plot(places, -row + height * taps, color=B)
        ax.text(places[-1] + 0.02 * np.ptp(places), -row, name, color=B, weight="bold", va="center")
    ax.axvline(0, color=DROPPED, lw=0.6)
    ax.spines["left"].set_visible(False)
    ax.set(yticks=[], xlabel=unit, ylim=(0.4 - len(kernels), 0.6))
    ax.set_xlim(places[0], places[-1] + 0.38 * np.ptp(places))  # room for the names
    ticks = MaxNLocator(7, steps=[1, 2, 5, 10]).tick_values(*places[[0, -1]])
    ax.set_xticks([tick for tick in ticks if places[0] <= tick <= places[-1]])
    return ax


def plot_heard(loudness: ArrayLike, here: tuple[int, int], ax: Axes) -> Axes:
    """Draw how much the ringed pixel ``here`` depends on each pixel, (height, width); 0 in grey."""
    effect = np.asarray(loudness, float)
    ax.set_facecolor(SILENCE)
    ax.imshow(np.ma.masked_equal(effect, 0), cmap=LOUDNESS, vmin=0, interpolation="nearest")
    ax.plot([here[1]], [here[0]], "o", ms=15, mfc="none", mec=REFERENCE, mew=2, path_effects=HALO)
    ax.set(xticks=[], yticks=[], xlabel="dark: the ringed pixel depends on it")
    return ax


def plot_signed(table: ArrayLike, ax: Axes) -> Axes:
    """Draw a table whose numbers below 0 have one colour and those above 0 another; the darkest is the largest."""
    numbers = np.asarray(table, float)
    top = np.abs(numbers).max() or 1.0
    ax.imshow(numbers, cmap=SIGNED, vmin=-top, vmax=top, interpolation="nearest")
    ax.grid(False)
    return ax

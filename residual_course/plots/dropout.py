"""Dropout: the networks that a step trains, and errors on what was trained on and on what is new."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from residual_course.plots.style import DROPPED, PALE, REFERENCE, SERIES, STREAM

INPUTS, RADIUS = 3, 0.3


def plot_thinned(masks: Mapping[str, ArrayLike], figure: Figure) -> None:
    """Draw a small network for each name: ``(layers, units)`` True where a unit stays; what is dropped is pale."""
    for ax, (name, mask) in zip(figure.subplots(1, len(masks)), masks.items(), strict=True):
        layers = [[True] * INPUTS, *np.asarray(mask, bool).tolist(), [True]]
        places = [[(at, row - (len(layer) - 1) / 2) for row in range(len(layer))] for at, layer in enumerate(layers)]
        for at, layer in enumerate(layers[:-1]):
            for start, stays in zip(places[at], layer, strict=True):
                for end, follows in zip(places[at + 1], layers[at + 1], strict=True):
                    if stays and follows:
                        ax.plot(*zip(start, end, strict=True), "-", color=STREAM, linewidth=0.8, zorder=0)
        for x, y, stays in [(*place, on) for at, row in enumerate(places) for place, on in zip(row, layers[at])]:  # noqa: B905
            ink = (STREAM, "white", "-") if stays else (DROPPED, PALE, ":")
            ax.plot(x, y, "o", markersize=14, markeredgecolor=ink[0], markerfacecolor=ink[1])
            if not stays:
                ax.text(x, y, "0", color=REFERENCE, ha="center", va="center")
        ax.set(xlim=(-0.5, len(layers) - 0.5), ylim=(-2.2, 2.2))
        ax.set_title(name, weight="normal", loc="center")
        ax.axis("off")


def plot_errors(curves: Mapping[str, ArrayLike], steps: Sequence[int], figure: Figure) -> None:
    """Draw errors over the training, ``(seeds, steps, 2)`` for each of at most three names, a line a seed.

    The left panel has the first of the two, the error on what was trained on, the right one the error on what is new.
    """
    panels: Sequence[Axes] = figure.subplots(1, 2, sharey=True)
    for which, (ax, title) in enumerate(zip(panels, ("patients it trains on", "new patients"), strict=True)):
        ends = []
        for (name, values), (ink, dash, _) in zip(curves.items(), SERIES, strict=False):
            rows = np.asarray(values, float)[:, :, which]
            ax.plot(list(steps), rows.T, dash, color=ink, linewidth=1.4)
            ends.append((rows[:, -1].mean(), name, ink))
        ax.axhline(1, color=REFERENCE, linewidth=0.6, zorder=0)
        if which:
            place = -np.inf
            for height, name, ink in sorted(ends):
                place = max(place + 0.12, height)
                ax.text(steps[-1] * 1.03, place, name, color=ink, weight="bold", va="center")
        ax.set(xlabel="training step", xlim=(0, steps[-1]), ylim=(0, 1.2))
        ax.set_title(title, weight="normal")
    panels[0].text(steps[-1] * 0.98, 1.03, "the mean for everyone", ha="right")
    panels[0].set_ylabel("mean squared error")

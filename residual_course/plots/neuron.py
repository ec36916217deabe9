"""A signal and its predictions, and a kernel over its lags."""

from collections.abc import Iterable, Mapping

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from residual_course.plots.style import DROPPED, REFERENCE, SERIES, B


def plot_predictions(
    measured: ArrayLike | None, predictions: Mapping[str, ArrayLike], ax: Axes, first: int = 0
) -> Axes:
    """Draw a measured signal, dotted, and each named prediction of it; one sample a millisecond from ``first`` on.

    Without ``measured`` the predictions are drawn alone.
    """
    curves = [("measured", np.asarray(measured, float), REFERENCE, ":")] if measured is not None else []
    for (name, values), (color, dash, _) in zip(predictions.items(), SERIES, strict=False):
        curves.append((name, np.asarray(values, float), color, dash))
    for name, values, color, dash in curves:
        ax.plot(first + np.arange(len(values)), values, color=color, ls=dash, lw=1.5, label=name)
    low, high = (limit(np.concatenate([values for _, values, *_ in curves])) for limit in (np.min, np.max))
    if predictions:
        ax.legend(loc="upper right", ncols=len(curves))
        high += 0.3 * (high - low)  # room for the legend
    ax.set(xlabel="time (ms)", ylabel="voltage (std)", xlim=(first, first + len(curves[0][1]) - 1))
    ax.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    return ax


def plot_kernel(taps: ArrayLike, ax: Axes, named: Iterable[int] = (), color: str = B) -> Axes:
    """Draw taps over their lags, and write each lag of ``named`` beside its tap."""
    kernel = np.asarray(taps, float)
    ax.axhline(0, color=DROPPED, lw=0.6)
    ax.plot(kernel, color=color, lw=1.2)
    for lag in named:
        ax.plot([lag], [kernel[lag]], "o", color=color, ms=5)
        ax.text(lag + len(kernel) / 60, kernel[lag], f"lag {lag}", color=color, weight="bold", va="center")
    ax.set(xlabel="lag (ms)", ylabel="tap", xlim=(0, len(kernel) - 1))
    return ax

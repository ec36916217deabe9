"""A signal and its predictions, a kernel over its lags, and errors: against waves, by name."""

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


def plot_by_waves(waves: ArrayLike, errors: Mapping[str, ArrayLike], ax: Axes, stored: ArrayLike) -> Axes:
    """Draw errors against omega on a logarithmic axis: for each name a table, (omega, seeds), as dots and their mean.

    ``stored`` has the error of a stored kernel for each name: a dot at the right, and a dotted line at the first.
    """
    places, flat = np.asarray(waves, float), np.asarray(stored, float)
    aside = 4 * places[-1]
    for (name, table), own, (color, dash, mark) in zip(errors.items(), flat, SERIES, strict=False):
        ax.plot([aside], [own], mark, color=color, ms=6, fillstyle="none", mew=1.5)
        found = np.asarray(table, float)
        ax.plot(np.repeat(places, found.shape[1]), found.ravel(), mark, color=color, ms=4, fillstyle="none")
        ax.plot(places, found.mean(1), color=color, ls=dash, lw=1.2, label=name)
    ax.axhline(flat[0], color=REFERENCE, ls=":", lw=1)
    ax.set_ylim(bottom=0)
    ax.set_xscale("log", base=2)
    ax.set_xticks([*places, aside], [*(f"{each:g}" for each in places), "stored"])
    ax.minorticks_off()
    ax.legend(loc="upper center")
    ax.set(xlabel="omega: waves in 256 taps", ylabel="error")
    return ax


def plot_between(lags: ArrayLike, taps: ArrayLike, fine: ArrayLike, curve: ArrayLike, ax: Axes) -> Axes:
    """Draw the function that generates a kernel as a line, and the taps that it is read at as dots."""
    ax.plot(fine, curve, color=DROPPED, lw=1)
    ax.plot(lags, taps, "o", color=B, ms=5)
    ax.set(xlabel="lag (ms)", ylabel="tap")
    return ax


def plot_errors_by_name(found: Mapping[str, ArrayLike], ax: Axes) -> Axes:
    """Draw the errors of each name as dots on an axis from 0 on, one name under the other."""
    rows = len(found) - 1 - np.arange(len(found))
    for row, errors in zip(rows, found.values(), strict=True):
        values = np.atleast_1d(np.asarray(errors, float))
        ax.plot(values, np.full(len(values), row), "o", color=B, ms=7, fillstyle="none", mew=1.5)
    ax.set_yticks(rows, list(found))
    ax.set(xlabel="error", ylim=(-0.6, len(found) - 0.4))
    ax.set_xlim(left=0)
    return ax

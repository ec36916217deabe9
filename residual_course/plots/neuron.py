"""A signal and its predictions, a kernel over its lags, and errors: against a lag, against waves, by name."""

from collections.abc import Iterable, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter
from numpy.typing import ArrayLike

from residual_course.plots.style import DROPPED, PALE, REFERENCE, SERIES, B


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


def plot_first_lags(
    first: ArrayLike, errors: ArrayLike, taps: int, wanted: Iterable[tuple[int, int]], best: float, ax: Axes
) -> Axes:
    """Draw the error of a few taps against the lag at which they begin.

    Shaded is where they cover a lag of one of the ``wanted`` ranges, (lowest, highest), which are named; the dashed
    line is the error ``best`` of a long kernel.
    """
    starts = np.asarray(first, float)
    for low, high in wanted:
        ax.axvspan(max(low - taps + 1, starts[0]), min(high, starts[-1]), color=PALE, lw=0)
        ax.text((low + high - taps + 1) / 2, 1.08, f"{low:g} to {high:g}", ha="center", color=REFERENCE)
    ax.axhline(best, color=REFERENCE, ls="--", lw=0.9)
    ax.text(starts[-1], best + 0.02, "256 taps", ha="right", va="bottom", color=REFERENCE)
    ax.plot(starts, np.asarray(errors, float), "o-", color=B, ms=3, lw=1)
    ax.set(xlabel=f"first lag of the {taps} taps (ms)", ylabel="error", ylim=(0, 1.2))
    ax.set_xlim(starts[0] - 2, starts[-1] + 2)
    return ax


def plot_lags(horizons: ArrayLike, lags: ArrayLike, period: float, ax: Axes) -> Axes:
    """Draw the lag of each horizon's largest tap as a dot, and one and two periods minus the horizon as named lines."""
    ahead = np.asarray(horizons, float)
    for name, back, start, dash in (("P − h", period, 0, "-"), ("2P − h", 2 * period, 0.95 * period, "--")):
        stop = min(back, 1.55 * period)
        ax.plot([start, stop], [back - start, back - stop], color=REFERENCE, ls=dash, lw=1)
        middle = (start + stop) / 2
        ax.text(middle + 2, back - middle + 2, name, color=REFERENCE, va="bottom")
    ax.plot(ahead, np.asarray(lags, float), "o", color=B, ms=6)
    ax.set(xlabel="horizon h (ms)", ylabel="lag of the largest tap", ylim=(-4, 1.2 * period))
    return ax


def plot_by_waves(waves: ArrayLike, errors: Mapping[str, ArrayLike], ax: Axes, stored: ArrayLike) -> Axes:
    """Draw errors against ω₀ on a logarithmic axis: for each name a table, (ω₀, seeds), as dots and their mean.

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
    ax.set(xlabel="ω₀: waves in 256 taps", ylabel="error")
    return ax


def plot_between(lags: ArrayLike, taps: ArrayLike, fine: ArrayLike, curve: ArrayLike, ax: Axes) -> Axes:
    """Draw the function that generates a kernel as a line, and the taps that it is read at as dots."""
    ax.plot(fine, curve, color=DROPPED, lw=1)
    ax.plot(lags, taps, "o", color=B, ms=5)
    ax.set(xlabel="lag (ms)", ylabel="tap")
    return ax


def plot_errors_by_name(found: Mapping[str, ArrayLike], ax: Axes, laws: ArrayLike) -> Axes:
    """Draw the errors of each name as dots on a logarithmic axis; a dashed line is one of ``laws``."""
    rows = len(found) - 1 - np.arange(len(found))
    ax.set_xscale("log")
    for row, errors in zip(rows, found.values(), strict=True):
        values = np.asarray(errors, float)
        ax.plot(values, np.full(len(values), row), "o", color=B, ms=7, fillstyle="none", mew=1.5)
    for law in np.asarray(laws, float):
        ax.axvline(law, color=REFERENCE, ls="--", lw=0.9)
    ax.set_yticks(rows, list(found))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set(xlabel="error", ylim=(-0.6, len(found) - 0.4))
    return ax

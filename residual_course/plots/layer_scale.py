"""LayerScale: the loss over one gate and one weight, gates over the steps, gradients, and training with and without."""

from collections.abc import Iterable, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from residual_course.plots.style import DROPPED, GATE, GRADIENT, REFERENCE, A, B

SMOOTH = 5


def plot_valley(
    gates: ArrayLike, weights: ArrayLike, losses: ArrayLike, paths: Mapping[str, ArrayLike], ax: Axes
) -> Axes:
    """Draw the loss over a gate and a weight, ``(weights, gates)``, and the path from each named start.

    The darker, the higher the loss. Each path is ``(steps, 2)``, gate and weight; its start is ringed and named.
    """
    losses = np.asarray(losses, float)
    high = np.quantile(losses, 0.9)
    levels = np.linspace(0 if high > 0 else high - 1, high, 9)
    ax.contourf(gates, weights, losses, levels, cmap="Greys", alpha=0.5, extend="max")
    ax.text(0.985, 0.03, "dark: a high loss", transform=ax.transAxes, color="white", ha="right")
    for name, path in paths.items():
        across, up = np.asarray(path, float).T
        ax.plot(across, up, ".-", color=GATE, ms=5, lw=1.5)
        ax.plot(across[:1], up[:1], "o", color=GATE, ms=11, mec="white", mew=1.5)
        ax.annotate(
            name, (across[0], up[0]), (9, -4), textcoords="offset points", color=REFERENCE, weight="bold", va="top"
        )
    ax.set(xlabel="gate α", ylabel="weight w of the branch")
    return ax


def plot_funnel(starts: Iterable[ArrayLike], ax: Axes) -> Axes:
    """Draw gates over the steps taken, ``(seeds, steps)`` for each initial value, on logarithmic axes.

    Each initial value is a dot; the final size of the gates with the lowest one is written at their end.
    """
    lowest, *others = sorted((np.asarray(rows, float) for rows in starts), key=lambda rows: rows[0, 0])
    for rows in (lowest, *others):
        for row in rows:
            ax.plot(range(len(row)), row, color=GATE, lw=1.2)
        ax.plot([0], rows[:1, 0], "o", color=GATE, ms=8, clip_on=False, zorder=3)
    end = float(np.median(lowest[:, -1]))
    ax.annotate(
        f"{end:.2g}", (len(row), end), (0, -26), textcoords="offset points", color=GATE, weight="bold", ha="right"
    )
    ax.set_xscale("symlog", linthresh=1, linscale=0.6)
    ax.set(yscale="log", xlim=(0, len(row)), xlabel="steps taken", ylabel="mean size of the gates")
    ax.set_xticks([0, 1, 10, 100], ["0", "1", "10", "100"])
    return ax


def plot_race(curves: Mapping[str, ArrayLike], ax: Axes, named: bool = True) -> Axes:
    """Draw curves over the steps, ``(seeds, steps)`` for each name: the first name without the gate, the second with.

    If ``named``, each name is written over the second half of its curves.
    """
    for (name, rows), (color, dash) in zip(curves.items(), ((DROPPED, "--"), (GATE, "-")), strict=True):
        rows = np.asarray(rows, float)
        for row in rows:
            ax.plot(range(len(row)), row, color=color, ls=dash, lw=1.2)
        if named:
            end = (len(row), float(rows[:, -len(row) // 2 :].max()))
            ax.annotate(
                name, end, (0, 4), textcoords="offset points", color=color, weight="bold", ha="right", va="bottom"
            )
    ax.set(xlabel="steps taken", xlim=(0, len(row)))
    return ax


def smoothed(rows: ArrayLike) -> np.ndarray:
    """Return the means over ``SMOOTH`` neighbouring steps of curves ``(seeds, steps)``."""
    return np.lib.stride_tricks.sliding_window_view(np.asarray(rows, float), SMOOTH, axis=1).mean(-1)


def plot_wirings(curves: Mapping[str, Mapping[str, ArrayLike]], figure: Figure) -> Figure:
    """Draw, side by side, the losses of each wiring without and with gates, ``(seeds, steps)`` each, logarithmic.

    The curves are means over ``SMOOTH`` steps. The first panel names them.
    """
    panels = np.atleast_1d(figure.subplots(1, len(curves), sharey=True))
    for ax, (wiring, pair) in zip(panels, curves.items(), strict=True):
        means = {name: smoothed(rows) for name, rows in pair.items()}
        plot_race(means, ax, named=ax is panels[0]).set_title(wiring, weight="normal")
        ax.set(yscale="log", ylim=(0.02, 4))
        ax.set_yticks([0.03, 0.1, 0.3, 1, 3], ["0.03", "0.1", "0.3", "1", "3"])
        ax.minorticks_off()
    panels[0].set_ylabel(f"training loss (mean of {SMOOTH} steps)")
    return figure


def plot_gradients(found: Mapping[str, Mapping[int, ArrayLike]], figure: Figure) -> Figure:
    """Draw, side by side, the gradient of the loss at each place of the stream, for each network, logarithmic.

    A network has a curve ``(places,)`` for each of some steps. The earlier the step, the thinner its line; the steps
    are named in the first panel, where the curves are far apart.
    """
    panels = np.atleast_1d(figure.subplots(1, len(found), sharey=True))
    for ax, (name, curves) in zip(panels, found.items(), strict=True):
        for place, (step, values) in enumerate(curves.items()):
            row, dash = np.asarray(values, float), (":", "-.", "--", "-")[place % 4]
            ax.plot(row, color=GRADIENT, ls=dash, lw=1.2 + 0.4 * place)
            if ax is panels[0]:
                middle, last = len(row) // 2, step == max(curves)  # the last one's name stands below it
                where = ((middle, row[middle]), (6, -13)) if last else ((1, row[:middle].max()), (0, 2))
                ax.annotate(f"step {step}", *where, textcoords="offset points", color=GRADIENT)
        ax.set_title(name, weight="normal")
        ax.set(yscale="log", xlabel="blocks passed", xlim=(0, len(row) - 1))
    panels[0].set_ylabel("gradient at the stream (rms)")
    return figure


def plot_moves(found: Mapping[str, ArrayLike], alone: Mapping[int, float], ax: Axes) -> Axes:
    """Draw losses over the total move of the first step, for each of up to four kinds, both logarithmic.

    A run is ``(move, loss, steps)``. ``alone`` holds the loss without blocks for two numbers of steps: runs of the
    first are drawn open and those of the second filled, and a line stands at each loss.
    """
    looks = zip(found.items(), (A, B, DROPPED, REFERENCE), "so^D", strict=False)
    few, many = alone
    for place, ((name, runs), color, mark) in enumerate(looks):
        moves, losses, steps = np.asarray(runs, float).reshape(-1, 3).T
        for at, fill in ((few, "none"), (many, color)):
            ax.plot(moves[steps == at], losses[steps == at], mark, color=color, ms=6, mfc=fill)
        where = (0.03, 0.93 - 0.08 * place)
        ax.text(*where, f"{'□○△◆'[place]} {name}", transform=ax.transAxes, color=color, weight="bold")
    for (length, loss), dash in zip(alone.items(), ("--", ":"), strict=True):
        ax.axhline(loss, color=REFERENCE, ls=dash, lw=1.2)
        text = f"no blocks, {length} steps"
        ax.annotate(text, (0.03, loss), (0, 4), ("axes fraction", "data"), "offset points", color=REFERENCE)
    ax.set(xscale="log", yscale="log", xlim=(0.08, 18), ylim=(0.02, 9))
    ax.set(xlabel="total move of the first step", ylabel=f"loss after {few} (open) or {many} steps (filled)")
    ax.set_xticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
    ax.set_yticks([0.03, 0.1, 0.3, 1, 3], ["0.03", "0.1", "0.3", "1", "3"])
    ax.minorticks_off()
    return ax

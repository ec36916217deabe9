"""LayerScale: the loss over one gate and one weight, gradients at step 0, gates over the steps, losses."""

from collections.abc import Iterable, Mapping

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from residual_edu.plotting.style import DROPPED, GATE, REFERENCE, A


def plot_valley(
    gates: ArrayLike, weights: ArrayLike, losses: ArrayLike, paths: Mapping[str, ArrayLike], ax: Axes
) -> Axes:
    """Draw the loss over a gate and a weight, ``(weights, gates)``, and the path from each named start.

    The darker, the higher the loss. Each path is ``(steps, 2)``, gate and weight; its start is ringed and named.
    """
    losses = np.asarray(losses, float)
    levels = np.linspace(0, np.quantile(losses, 0.9), 9)
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


def plot_step_zero(starts: ArrayLike, layer: ArrayLike, gate: ArrayLike, ax: Axes) -> Axes:
    """Draw the gradients of a branch's layer and of its gate before training, over the gate's initial value.

    Sizes are ``(seeds, starts)``; a dotted guide line is proportional to the start.
    """
    starts, layer = np.asarray(starts, float), np.asarray(layer, float)
    guide = starts / starts.min() * layer[:, starts.argmin()].mean()
    ax.loglog(starts, guide, ":", color=REFERENCE, lw=1.5)
    for name, sizes, color, dash in (
        ("gradient of the gate γ", gate, GATE, ".-"),
        ("gradient of the branch's weights", layer, A, "s--"),
    ):
        for row in np.asarray(sizes, float):
            ax.loglog(starts, row, dash, color=color, ms=4, lw=1.2)
        rank, offset, side = (0.25, (10, -12), "left") if color == A else (0.5, (0, 9), "center")
        place = starts.argsort()[int(rank * len(starts))]
        at = (starts[place], row[place])
        ax.annotate(name, at, offset, textcoords="offset points", color=color, weight="bold", ha=side)
    ax.set(xlabel="λ, where every gate starts", ylabel="size of the gradient")
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
    ax.set(yscale="log", xlim=(0, len(row)), xlabel="steps taken", ylabel="mean size of γ")
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

"""What outputs depend on: flips that are learned, a matrix of gradients, flips told by spreads, mixers, patients."""

from collections.abc import Mapping
from math import log

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from residual_course.plots.style import DROPPED, REFERENCE, SERIES, STREAM, A, B

Seeds = Mapping[str, Mapping[str, ArrayLike]]  # for each row and each kind of mark, a share a seed


def plot_flips(losses: ArrayLike, ax: Axes) -> Axes:
    """Draw training losses, ``(seeds, steps)``, under the loss of guessing a fair flip."""
    rows = np.asarray(losses, float)
    ax.plot(rows.T, color=A, lw=1.1)
    ax.axhline(log(2), color=REFERENCE, lw=0.9, ls="--")
    ax.text(rows.shape[1], log(2) + 0.02, f"guessing: {log(2):.2f}", ha="right", va="bottom")
    ax.set(xlabel="steps taken", ylabel="training loss", xlim=(0, rows.shape[1]), ylim=(0, 0.85))
    return ax


def plot_dependence(matrix: ArrayLike, ax: Axes) -> Axes:
    """Draw ``(outputs, inputs)`` sizes of gradients, dark for 0, with stairs between the past and the future.

    The root of each size is drawn, over that of the largest, so that what is small is seen as well.
    """
    sizes = np.sqrt(np.asarray(matrix, float))
    amount = len(sizes)
    ax.imshow(sizes / (sizes.max() or 1), cmap="viridis", vmin=0, vmax=1, interpolation="none")
    edges = np.arange(amount + 1) - 0.5
    ax.stairs(edges[:-1], edges, baseline=None, color="white", lw=1.2)
    ax.set(xlabel="input j", xticks=range(0, amount, 5), yticks=range(0, amount, 5))
    ax.set(xlim=(-0.5, amount - 0.5), ylim=(amount - 0.5, -0.5))
    return ax


def plot_named(amounts: ArrayLike, shares: ArrayLike, ax: Axes) -> Axes:
    """Draw ``(seeds, amounts)`` shares of flips that are told right over the number of channels."""
    ax.plot(amounts, np.asarray(shares, float).T, "o", ls="-", ms=5, lw=0.9, color=A, alpha=0.8)
    ax.axhline(0.5, color=REFERENCE, lw=0.9, ls="--")
    ax.text(np.max(amounts), 0.51, "guessing", ha="right", va="bottom")
    ax.set(xlabel="channels", ylabel="flips told right", ylim=(0.45, 1.03), xticks=[1, 4, 8, 12, 16, 24, 32])
    return ax


def plot_shares(found: Seeds, ax: Axes) -> Axes:
    """Draw a row for each name, and in it a mark for each seed of each kind; the kinds stand in a legend."""
    kinds = list(next(iter(found.values())))
    for (color, _, mark), kind, shift in zip(SERIES, kinds, np.linspace(-0.16, 0.16, len(kinds)), strict=False):
        for place, shares in enumerate(found.values()):
            one = np.asarray(shares[kind], float)
            name = kind if place == 0 else "_"
            ax.scatter(one, np.full(len(one), place + shift), 49, color, marker=mark, alpha=0.75, label=name)
    ax.set_yticks(range(len(found)), list(found))
    ax.set(ylim=(len(found) - 0.5, -0.6), xlim=(0.4, 1.02))
    ax.grid(axis="x", color=DROPPED, alpha=0.25)
    ax.tick_params(axis="y", length=0)
    ax.legend(loc="best", frameon=True, edgecolor=DROPPED)
    return ax


def brief(probe: str, value: float | int) -> str:
    """Return a probe's number as a learner reads it."""
    if probe in ("None", "zero", "count"):
        return f"{value:,.0f}"
    if probe == "rows":
        return "0" if value == 0 else f"{value:.0e}".replace("e-0", "e-")
    return f"{value:.0f}" if probe == "× 100" and value > 20 else f"{value:.2f}"


def plot_probes(cards: Mapping[str, Mapping[str, float]], ax: Axes) -> Axes:
    """Draw a table, a row for each network and a column for each probe."""
    probes = list(next(iter(cards.values())))
    for row, card in enumerate(cards.values()):
        for column, (probe, value) in enumerate(card.items()):
            ax.text(column, row, brief(probe, value), ha="center", va="center", color=REFERENCE)
    for row in range(len(cards) - 1):
        ax.axhline(row + 0.5, color=DROPPED if row else REFERENCE, lw=0.5 if row else 1)
    ax.set_yticks(range(len(cards)), list(cards))
    ax.set_xticks(range(len(probes)), probes)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.set(xlim=(-0.5, len(probes) - 0.4), ylim=(len(cards) - 0.5, -0.5))
    for spine in ax.spines.values():
        spine.set_visible(False)
    return ax


def plot_trained_patients(ends: Mapping[str, ArrayLike], alone: Mapping[str, ArrayLike], ax: Axes) -> Axes:
    """Draw shares of digits right, a mark a seed: of each network in one batch, of those in ``alone`` one by one."""
    rows = {name: row for row, name in enumerate(ends)}
    for shares, (mark, color), shift in ((ends, ("o", STREAM), -0.15), (alone, ("D", B), 0.15)):
        label = "in one batch" if mark == "o" else "one at a time"
        for name, values in shares.items():
            one = np.asarray(values, float)
            ax.scatter(one, np.full(len(one), rows[name] + shift), 36, color, marker=mark, alpha=0.75, label=label)
            label = "_"
    ax.axvline(float(np.mean(np.asarray(next(iter(ends.values())), float))), color=REFERENCE, lw=0.9, ls="--")
    ax.set_yticks(range(len(ends)), list(ends))
    ax.set(xlabel="test digits right", xlim=(0.7, 1), ylim=(len(ends) - 0.5, -0.5))
    ax.grid(axis="x", color=DROPPED, alpha=0.25)
    ax.tick_params(axis="y", length=0)
    ax.legend(loc="center left", frameon=True, edgecolor=DROPPED)
    return ax

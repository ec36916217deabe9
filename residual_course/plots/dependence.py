"""What outputs depend on: flips that are learned, positions that move, spreads, shares, patients."""

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from residual_course.plots.style import DROPPED, REFERENCE, SERIES, STREAM, A, B

Seeds = Mapping[str, Mapping[str, ArrayLike]]  # for each row and each kind of mark, a share a seed


def plot_flips(runs: Mapping[str, Sequence[tuple[Any, Sequence[float], float]]], title: str) -> Figure:
    """Draw training losses and name what was read; ``runs`` has, for each name, a network, its losses, its share."""
    figure = Figure(figsize=(6, 3.2))
    ax = figure.add_subplot()
    ax.axhline(log(2), color=REFERENCE, lw=0.9)
    looks = SERIES if len(runs) > 1 else SERIES[:1]
    said: list[str] = []
    for (color, dash, _), (name, seeds) in zip(looks, runs.items(), strict=False):
        for _, losses, _ in seeds:
            ax.plot(losses, dash, color=color, lw=1.3)
        shares = ", ".join(f"{share:.0%}" for *_, share in seeds)
        words = f"{name}: {shares} predicted"
        ax.annotate(
            words, (0.98, 0.94 - 0.1 * len(said)), xycoords="axes fraction", color=color, weight="bold", ha="right"
        )
        said.append(f"{words}, loss from {seeds[0][1][0]:.2f} to {float(np.mean(seeds[0][1][-10:])):.2f}.")
    ax.text(0.98, log(2) - 0.02, "guessing: 0.69", ha="right", va="top", transform=ax.get_yaxis_transform())
    ax.set(xlabel="training step", ylabel="training loss", xlim=(0, len(losses)), ylim=(0, 1), title=title)
    figure.set_label(f"Training loss against the step, three seeds each. {' '.join(said)}")
    return figure


def plot_moved(maps: Mapping[str, ArrayLike], title: str) -> Figure:
    """Draw for each name which positions of a picture move, ``(height, width)`` of true and false."""
    figure = Figure(figsize=(6, 2.9))
    for ax, (name, found) in zip(figure.subplots(1, len(maps)), maps.items(), strict=True):
        table = np.asarray(found)
        ax.imshow(table, cmap=ListedColormap(["white", A]), vmin=0, vmax=1)
        height, width = table.shape
        ax.set_xticks(np.arange(width + 1) - 0.5, [""] * (width + 1))
        ax.set_yticks(np.arange(height + 1) - 0.5, [""] * (height + 1))
        ax.grid(color=DROPPED, lw=0.6)
        ax.tick_params(length=0)
        ax.set_title(f"{name}: {table.sum()} of {table.size} move", weight="normal", size=11)
    figure.suptitle(title, weight="bold")
    counts = "; ".join(f"{name}: {np.asarray(found).sum()}" for name, found in maps.items())
    figure.set_label(f"Squares of positions; those whose output moves are dark. {counts}.")
    return figure


def plot_movie(frames: ArrayLike, title: str) -> Figure:
    """Draw the frames of a movie, ``(frames, height, width)``, one after the other."""
    figure = Figure(figsize=(6, 1.6))
    images = np.asarray(frames, float)
    for number, (ax, frame) in enumerate(zip(figure.subplots(1, len(images)), images, strict=True), start=1):
        ax.imshow(frame, cmap="gray_r", vmin=0, vmax=1)
        ax.set(xticks=[], yticks=[])
        ax.set_xlabel(f"frame {number}")
    figure.suptitle(title, weight="bold")
    figure.set_label(f"{len(images)} frames of a handwritten digit, a column further to the right in each.")
    return figure


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

"""A configurable block: the menu of parts, losses after a swap, bytes cached a token, the cost of a token."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from residual_edu.invalid_input import InvalidInput
from residual_edu.plotting.style import DROPPED, REFERENCE, SERIES, A, B
from residual_edu.plotting.takes import takes
from residual_edu.renamed import refuse_old_names

COLORS = tuple(color for color, _, _ in SERIES)


@takes(menu="columns: rows, words", order="columns, words")
def plot_menu(menu: Mapping[str, Sequence[str]], order: Sequence[str], ax: Axes) -> Axes:
    """Draw a column of names for each part of ``menu``, all paths through them, and ``order``, one of the paths."""
    for step, names in zip(order, menu.values(), strict=True):
        if step not in names:
            raise InvalidInput(f"order must hold a name of each column of menu, got {step!r}, not in {list(names)}")
    places = {
        (column, name): (column, (len(names) - 1) / 2 - row)
        for column, names in enumerate(menu.values())
        for row, name in enumerate(names)
    }
    for (left, start), (right, end) in ((a, b) for a in places.items() for b in places.items()):
        if right[0] == left[0] + 1:
            ax.plot(*zip(start, end, strict=True), color=DROPPED, lw=0.8, zorder=1)
    chosen = [places[step] for step in enumerate(order)]
    for start, end in pairwise(chosen):
        ax.plot(*zip(start, end, strict=True), color=B, lw=3.5, zorder=2)
    for (column, name), place in places.items():
        color = B if order[column] == name else REFERENCE
        frame = {"boxstyle": "round,pad=0.45", "facecolor": "white", "edgecolor": color, "linewidth": 1.5}
        ax.text(*place, name, color=color, ha="center", va="center", bbox=frame, zorder=3)
    high = max(map(len, menu.values())) / 2
    for column, title in enumerate(menu):
        ax.text(column, high + 0.05, title, ha="center", weight="bold", color=REFERENCE)
    ax.set(xlim=(-0.5, len(menu) - 0.5), ylim=(-high, high + 0.4))
    ax.axis("off")
    return ax


@takes(losses="", chance="seeds")
def plot_swaps(losses: Mapping[str, Mapping[str, float]], chance: ArrayLike, bound: float, ax: Axes) -> Axes:
    """Draw the loss of each swap as a dot, group by group, beside the span of the losses ``chance``.

    ``losses`` holds the loss by name for each part of the block, ``chance`` the base's losses for other seeds;
    ``bound`` is the loss that a table of pairs reaches.
    """
    span = np.asarray(chance, float)
    ax.axvspan(span.min(), span.max(), color=A, alpha=0.2, lw=0)
    ax.axvline(bound, color=REFERENCE, lw=1.2, ls="--")
    rows = [(group, name, loss) for group, named in losses.items() for name, loss in named.items()]
    for row, (_, _, loss) in enumerate(rows):
        ax.plot([span.mean(), loss], [row, row], color=B, lw=2, solid_capstyle="butt")
        ax.plot(loss, row, "o", color=B, ms=7)
    ax.text(span.mean(), -0.9, "base, three seeds", color=A, ha="center", va="bottom", weight="bold")
    ax.text(bound, -0.9, " pairs of characters", color=REFERENCE, ha="left", va="bottom")
    ax.set_yticks(range(len(rows)), [f"{group}: {name}" for group, name, _ in rows])
    ax.set(ylim=(len(rows) - 0.4, -1), xlabel="loss on text that it has not seen")
    ax.tick_params(axis="y", length=0)
    return ax


@takes(kept="")
def plot_kept(kept: Mapping[str, int], unit: str, ax: Axes) -> Axes:
    """Draw the amount of each name as a bar, with its number and ``unit`` at the end."""
    for row, amount in enumerate(kept.values()):
        ax.barh(row, amount, color=B, height=0.6)
        ax.text(amount, row, f"  {amount:g} {unit}", va="center", color=B, weight="bold")
    ax.set_yticks(range(len(kept)), kept.keys())
    ax.set(ylim=(len(kept) - 0.4, -0.6), xlim=(0, 1.25 * max(kept.values())), xticks=[])
    ax.tick_params(axis="y", length=0)
    ax.spines["bottom"].set_visible(False)
    return ax


@takes(lengths="lengths", costs="<=4: lengths")
def plot_costs(lengths: ArrayLike, costs: Mapping[str, ArrayLike], ax: Axes) -> Axes:
    """Draw the cost of one more token after ``lengths`` tokens, with each name at the end of its curve."""
    lengths = np.asarray(lengths, float)
    for (name, cost), (color, dash, mark) in zip(costs.items(), SERIES, strict=False):
        heights = np.asarray(cost, float)
        ax.plot(lengths, heights, color=color, ls=dash, marker=mark, ms=4)
        ax.annotate(name, (lengths[-1], heights[-1]), (8, 0), textcoords="offset points", color=color, weight="bold")
    ax.set(xlabel="tokens before it", ylabel="million operations", xlim=(0, 1.35 * lengths[-1]), yscale="log")
    ax.set_xticks(lengths, [f"{length:g}" for length in lengths])
    return ax


@takes(curves="<=4: steps, nan")
def plot_learning(curves: Sequence[ArrayLike], bound: float, ax: Axes) -> Axes:
    """Draw losses over the steps, and ``bound``, the loss that a table of pairs reaches."""
    for losses, (color, dash, _) in zip(curves, SERIES, strict=False):
        heights = np.asarray(losses, float)
        ax.plot(np.arange(len(heights)), heights, color=color, ls=dash, lw=1.8)
    ax.axhline(bound, color=REFERENCE, lw=1.2, ls=":")
    ax.annotate("table\nof pairs", (0, bound), (3, -4), textcoords="offset points", va="top")
    ax.set(xlabel="steps taken", ylabel="loss")
    return ax


refuse_old_names(__name__)

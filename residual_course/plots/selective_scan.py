"""Scans: a state that decays, chunks and errors, the cost, what a state holds, and right answers of each mixer."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from numpy.typing import ArrayLike

from residual_course.plots.style import DROPPED, PALE, REFERENCE, SERIES, A, B

MIXERS = {"Attention": "#332288", "CKConv": "#6B6B00", "Hyena": B, "Mamba": A}
"""One colour for each mixer; none of them means anything else in a figure."""
MARKS = {"Attention": "o", "CKConv": "s", "Hyena": "^", "Mamba": "D"}
CENTRED: dict[str, Any] = {"ha": "center", "va": "center"}
ROW_MARKS = (SERIES[1], SERIES[0], (REFERENCE, "-.", "D"))
HELD_MARKS = ((A, "--", "s"), (B, "-", "o"), (DROPPED, ":", "^"), (REFERENCE, "-.", "D"))
SWITCH_MARKS = (("#332288", "o"), ("#6B6B00", "s"), (B, "^"), (DROPPED, "D"), (A, "P"))


def plot_latch(numbers: ArrayLike, marked: ArrayLike, memories: Mapping[str, ArrayLike], ax: Axes) -> Axes:
    """Draw the inputs as dots, filled where ``marked``, and the named states as curves."""
    numbers, marked = np.asarray(numbers, float), np.asarray(marked, bool)
    places = np.arange(1, len(numbers) + 1)
    ax.plot(places[~marked], numbers[~marked], "o", color=DROPPED, mfc="white", ms=7)
    ax.plot(places[marked], numbers[marked], "o", color=REFERENCE, ms=10)
    above: dict[str, Any] = {"xytext": (0, 8), "textcoords": "offset points", "ha": "center", "weight": "bold"}
    halo = [withStroke(linewidth=4, foreground="white")]  # a curve passes behind a number
    for place, number in zip(places[marked], numbers[marked], strict=True):
        ax.annotate(f"{number:g}", (place, number), path_effects=halo, **above)
    for (name, memory), (color, dash, _) in zip(memories.items(), SERIES, strict=False):
        memory = np.asarray(memory, float)
        ax.step(places, memory, where="mid", color=color, ls=dash)
        end = (places[-1] + 0.5, memory[-1])
        ax.annotate(name, end, (6, 0), textcoords="offset points", color=color, weight="bold", va="center")
    ax.set(xlabel="position", ylabel="number", xticks=places, xlim=(0.5, 1.25 * len(numbers) + 0.5))
    return ax


def plot_states(states: ArrayLike, names: Sequence[str], ax: Axes) -> Axes:
    """Draw small matrices ``(steps, rows, columns)`` side by side, each number written, each with its name above."""
    states = np.asarray(states, float)
    steps, rows, columns = states.shape
    field = np.full((rows, steps * (columns + 1) - 1), np.nan)
    for step, state in enumerate(states):
        left = step * (columns + 1)
        field[:, left : left + columns] = state
        ax.text(left + (columns - 1) / 2, -0.75, names[step], ha="center", va="bottom", linespacing=1.3)
    reach = float(np.abs(states).max()) or 1.0
    ax.imshow(np.ma.masked_invalid(field), cmap="RdBu", vmin=-1.6 * reach, vmax=1.6 * reach)
    for (row, column), number in np.ndenumerate(field):
        if np.isfinite(number):
            ax.text(column, row, f"{number:g}", ha="center", va="center", weight="bold" if number else "normal")
    ax.set(xlim=(-0.6, field.shape[1] - 0.4), ylim=(rows - 0.4, -1.6))
    ax.axis("off")
    return ax


def plot_chunks(matrix: ArrayLike, chunk: int, ax: Axes) -> Axes:
    """Draw how much of what each position (column) wrote is left at each later one (row), with the chunks' borders."""
    left = np.asarray(matrix, float)
    count = len(left)
    ax.imshow(np.ma.masked_less_equal(left, 0), cmap="Blues", norm=LogNorm(1e-5, 1.0, clip=True))
    for start in range(0, count, chunk):
        long = min(chunk, count - start)
        ax.add_patch(Rectangle((start - 0.5, start - 0.5), long, long, fill=False, edgecolor=A, lw=2))
        ax.text(start + long - 1, start, "all pairs", color=A, ha="right", va="top")
        if start:
            ax.add_patch(
                Rectangle((-0.2, start - 0.2), start - 0.6, long - 0.6, fill=False, edgecolor="white", ls="--")
            )
            ax.text(start / 2 - 0.5, start + long / 2 - 0.5, "one state", color="white", weight="bold", **CENTRED)
    ax.set(xlabel="position that wrote", ylabel="position that reads", xticks=range(0, count, chunk))
    ax.set_yticks(range(0, count, chunk))
    return ax


def plot_errors(steps: ArrayLike, errors: Mapping[str, ArrayLike], ax: Axes) -> Axes:
    """Draw errors over the size of the largest step on logarithmic axes; a cross marks the last value before NaN."""
    steps = np.asarray(steps, float)
    for (name, error), (color, dash, mark) in zip(errors.items(), SERIES, strict=False):
        error = np.asarray(error, float)
        fine = np.flatnonzero(np.isfinite(error))
        ax.loglog(steps[fine], error[fine], color=color, ls=dash, marker=mark, ms=4)
        last = (steps[fine[-1]], error[fine[-1]])
        ended = len(fine) < len(error)
        if ended:
            ax.plot(*last, "X", color=color, ms=11)
        text, shift, side = (f"{name}: NaN beyond", (12, 0), "left") if ended else (name, (0, -14), "right")
        style: dict[str, Any] = {"textcoords": "offset points", "color": color, "weight": "bold", "va": "center"}
        ax.annotate(text, last, shift, ha=side, **style)
    ax.margins(y=0.15)
    ax.set(xlabel="size of the steps", ylabel="relative error")
    return ax


def slope(lengths: ArrayLike, costs: ArrayLike, last: int = 4) -> float:
    """Return the slope of ``costs`` over the ``last`` lengths on logarithmic axes: 1 is linear, 2 quadratic."""
    across, up = (np.log(np.asarray(values, float)[-last:]) for values in (lengths, costs))
    return float(np.polyfit(across, up, 1)[0])


def plot_cost(lengths: Sequence[int], costs: Mapping[str, ArrayLike], ax: Axes) -> Axes:
    """Draw cost against length on log scales, relative to the smallest, with its name and last slope at each end."""
    least = min(float(np.min(cost)) for cost in costs.values())
    for name, cost in costs.items():
        relative = np.asarray(cost, float) / least
        ax.loglog(lengths, relative, marker=MARKS[name], color=MIXERS[name], ms=5)
    height = 0.0
    for name, cost in sorted(costs.items(), key=lambda pair: float(np.asarray(pair[1])[-1])):
        height = max(float(np.asarray(cost)[-1]) / least, 1.45 * height)  # names that would touch are pushed apart
        style: dict[str, Any] = {"color": MIXERS[name], "weight": "bold", "va": "center"}
        ax.text(1.15 * lengths[-1], height, f"{name}: slope {slope(lengths, cost, last=2):.1f}", **style)
    ax.set(xlabel="positions", ylabel="time, against the shortest")
    ax.set_xticks(lengths, list(map(str, lengths)))
    ax.minorticks_off()
    ax.set_xlim(min(lengths) / 1.2, 6 * max(lengths))
    return ax


def plot_rows(
    found: Mapping[str, ArrayLike], ax: Axes, levels: Mapping[str, float], conditions: Sequence[str] = ("",)
) -> Axes:
    """Draw the right answers of some seeds for each named row, from the top down, with ``levels`` as named guide lines.

    With several ``conditions`` a row holds a table, (conditions, seeds); each condition has its own mark.
    """
    for level in levels.values():
        ax.axvline(level, color=REFERENCE, ls=":", lw=1)
    shifts = 0.22 * (np.arange(len(conditions)) - (len(conditions) - 1) / 2)
    for place, table in enumerate(found.values()):
        rows = np.atleast_2d(np.asarray(table, float))
        for row, shift, (color, _, mark) in zip(rows, shifts, ROW_MARKS, strict=False):
            line = ax.plot(row, np.full(len(row), place + shift), mark, color=color, ms=7, mfc="none", mew=1.5)
            line[0].set_clip_on(False)
            line[0].set_label("" if place else conditions[int(np.flatnonzero(shifts == shift)[0])])
    for name, level in levels.items():
        ax.text(level + 0.01, -0.9, name, ha="left", va="center", color=REFERENCE)
    if len(conditions) > 1 and (figure := ax.get_figure(root=True)):
        figure.legend(loc="outside lower center", ncols=len(conditions), handletextpad=0)
    ax.set_yticks(range(len(found)), list(found))
    ax.tick_params(axis="y", length=0)
    ax.set(xlabel="right answers", xlim=(0, 1.02), ylim=(len(found) - 0.4, -1.4 if levels else -0.6))
    return ax


def plot_held(found: Mapping[str, tuple[ArrayLike, ArrayLike]], ax: Axes) -> Axes:
    """Draw right answers over pairs for each number of a state; each named curve is (pairs, right answers)."""
    for (name, (pairs, right)), (color, dash, mark) in zip(found.items(), HELD_MARKS, strict=False):
        ax.plot(
            np.asarray(pairs, float), np.asarray(right, float), mark, color=color, ls=dash, lw=1.2, ms=6, label=name
        )
    ax.axhline(1 / 8, color=REFERENCE, ls=":", lw=1)
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter(lambda value, at: f"{value:g}" if value >= 1 else f"1/{1 / value:g}")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 0.14))  # above the line of a guess
    ax.set(xlabel="pairs for each number of an address, P / N", ylabel="right answers", ylim=(0, 1.05))
    return ax


def plot_switches(mixers: Sequence[str], columns: Sequence[str], ax: Axes) -> dict[str, Any]:
    """Draw an empty table of right answers, a column for each of ``columns``; return a line for each mixer to fill."""
    ax.axhline(9 / 16, color=REFERENCE, ls=":", lw=1)
    for edge in range(1, len(columns)):
        ax.axvline(edge - 0.5, color=PALE, lw=0.8)
    ax.set_xticks(range(len(columns)), list(columns))
    ax.tick_params(axis="x", length=0)
    ax.set(xlim=(-0.5, len(columns) - 0.5), ylim=(0, 1.05), ylabel="right answers")
    return {
        name: ax.plot([], [], mark, color=color, ms=6, mfc="none", mew=1.4, label=name)[0]
        for name, (color, mark) in zip(mixers, SWITCH_MARKS, strict=False)
    }

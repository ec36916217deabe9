"""Scans: a state that decays, chunks and errors, the cost, and what each mixer can remember."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from numpy.typing import ArrayLike

from residual_edu.invalid_input import InvalidInput
from residual_edu.plotting.style import DROPPED, REFERENCE, SERIES, A, B
from residual_edu.plotting.takes import takes

MIXERS = {"Attention": "#332288", "CKConv": "#6B6B00", "Hyena": B, "Mamba": A}
"""One colour for each mixer; none of them means anything else in a figure."""
MARKS = {"Attention": "o", "CKConv": "s", "Hyena": "^", "Mamba": "D"}
CENTRED: dict[str, Any] = {"ha": "center", "va": "center"}
SHADES = ["#08306B", "#2171B5", "#6BAED6", "#C6DBEF", "#DEEBF7"]


@takes(shares="steps inputs")
def plot_memory(shares: ArrayLike, ax: Axes) -> Axes:
    """Draw a state over the steps, ``(steps, inputs)``: a stack of what is left of each input, the oldest lowest."""
    shares = np.asarray(shares, float)
    steps, floor = np.arange(1, len(shares) + 1), np.zeros(len(shares))
    for place, left in enumerate(shares.T):
        bars = ax.bar(steps, left, 0.7, bottom=floor, color=SHADES[place % len(SHADES)], edgecolor="white")
        floor = floor + left
        texts = [f"{number:g}" if number > 0 else "" for number in left]
        colors = "white" if place < 2 else REFERENCE
        ax.bar_label(bars, texts, label_type="center", color=colors)
    for step, total in zip(steps, floor, strict=True):
        ax.annotate(f"{total:g}", (step, total), (0, 3), textcoords="offset points", ha="center", weight="bold")
    ax.set(xlabel="position", ylabel="memory", xticks=steps, ylim=(0, 1.2 * floor.max()))
    return ax


@takes(numbers="positions", marked="positions", memories="<=4: positions")
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


@takes(states="steps rows columns", names="steps, words")
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


@takes(matrix="positions positions", chunk=", whole, 1..")
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


@takes(steps="steps", errors="<=4: steps, nan")
def plot_errors(steps: ArrayLike, errors: Mapping[str, ArrayLike], ax: Axes) -> Axes:
    """Draw errors over the size of the largest step on logarithmic axes; a cross marks the last value before NaN."""
    steps = np.asarray(steps, float)
    for (name, error), (color, dash, mark) in zip(errors.items(), SERIES, strict=False):
        error = np.asarray(error, float)
        fine = np.flatnonzero(np.isfinite(error))
        if not fine.size:
            raise InvalidInput(f"errors[{name!r}] must hold at least 1 finite number, got none")
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


@takes(lengths="lengths>=2, above 0", costs="lengths, above 0")
def slope(lengths: ArrayLike, costs: ArrayLike, last: int = 4) -> float:
    """Return the slope of ``costs`` over the ``last`` lengths on logarithmic axes: 1 is linear, 2 quadratic."""
    across, up = (np.log(np.asarray(values, float)[-last:]) for values in (lengths, costs))
    return float(np.polyfit(across, up, 1)[0])


@takes({"costs": MIXERS}, lengths="lengths>=2, above 0", costs=": lengths, above 0")
def plot_cost(lengths: Sequence[int], costs: Mapping[str, ArrayLike], ax: Axes) -> Axes:
    """Draw cost against length on log scales, relative to the smallest, with each curve's name and slope at its end."""
    least = min(float(np.min(cost)) for cost in costs.values())
    for name, cost in costs.items():
        relative = np.asarray(cost, float) / least
        ax.loglog(lengths, relative, marker=MARKS[name], color=MIXERS[name], ms=5)
    height = 0.0
    for name, cost in sorted(costs.items(), key=lambda pair: float(np.asarray(pair[1])[-1])):
        height = max(float(np.asarray(cost)[-1]) / least, 1.45 * height)  # names that would touch are pushed apart
        style: dict[str, Any] = {"color": MIXERS[name], "weight": "bold", "va": "center"}
        ax.text(1.15 * lengths[-1], height, f"{name}: slope {slope(lengths, cost):.1f}", **style)
    ax.set(xlabel="positions", ylabel="time, against the shortest")
    ax.set_xticks(lengths, list(map(str, lengths)))
    ax.minorticks_off()
    ax.set_xlim(min(lengths) / 1.2, 6 * max(lengths))
    return ax


@takes({"scores": MIXERS}, scores=": mixers: seeds", levels="any: ")
def plot_scores(scores: Mapping[str, Mapping[str, Sequence[float]]], levels: Mapping[str, float], ax: Axes) -> Axes:
    """Draw the share of right answers of each mixer, a dot for each seed, one group of columns for each condition.

    ``scores`` is by condition, then by mixer; ``levels`` names the heights of guide lines.
    """
    for place, (condition, rows) in enumerate(scores.items()):
        for shift, (name, row) in enumerate(rows.items()):
            across = place * (len(rows) + 1) + shift
            (dots,) = ax.plot(np.full(len(row), across), row, MARKS[name], color=MIXERS[name], ms=8, mec="white")
            dots.set_label("" if place else name)
        middle = place * (len(rows) + 1) + (len(rows) - 1) / 2
        ax.text(middle, -0.03, condition, ha="center", va="top", transform=ax.get_xaxis_transform())
    for name, level in levels.items():
        ax.axhline(level, color=REFERENCE, ls=":", lw=1)
        ax.annotate(
            name, (1, level), (4, 0), xycoords=("axes fraction", "data"), textcoords="offset points", va="center"
        )
    ax.set(ylabel="right answers", ylim=(0, 1.1), xticks=[])
    ax.margins(x=0.1)
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1), labelcolor="linecolor", handlelength=0.8, borderpad=0)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    return ax

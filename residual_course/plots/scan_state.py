"""A scan from the inside: its state at each position."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from residual_course.plots.style import DROPPED, A, B


def plot_state(
    states: ArrayLike, written: ArrayLike, steps: ArrayLike, signs: Sequence[str], ax: Axes, below: Axes
) -> Axes:
    """Draw each number of a state as a bar at each position, solid where it was just written; dt stands below."""
    whole, new = np.asarray(states, float), np.asarray(written, float)
    places, wide = np.arange(len(whole)), 0.76 / whole.shape[1]
    for number, (ink, name) in enumerate(zip((A, B)[: whole.shape[1]], ("first", "second"), strict=False)):
        at = places + wide * (number - (whole.shape[1] - 1) / 2)
        kept = whole[:, number] - new[:, number]
        ax.bar(at, kept, 0.9 * wide, color=to_rgba(ink, 0.35), edgecolor=ink)
        ax.bar(at, new[:, number], 0.9 * wide, bottom=kept, color=ink, edgecolor=ink)
        most = int(new[:, number].argmax())
        ax.text(at[most], whole[most, number], f"{name} number", color=ink, weight="bold", ha="center", va="bottom")
    below.bar(places, np.asarray(steps, float), 0.76, color=DROPPED)
    ax.set_xticks(places, [""] * len(places))
    below.set_xticks(places, list(signs))
    for each, name in ((ax, "state S"), (below, "dt")):
        each.tick_params(axis="x", length=0)
        each.set_ylabel(name)
    marks = [Rectangle((0, 0), 1, 1, facecolor=to_rgba(DROPPED, strength)) for strength in (1.0, 0.35)]
    ax.legend(marks, ["just written", "kept"], loc="upper left")
    ax.margins(y=0.2)
    return ax

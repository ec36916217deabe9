"""A scan from the inside: its state at each position, what is left of what was written, and Mamba's mixer in boxes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from residual_course.plots.mixing_matrix import plot_mixing_matrix
from residual_course.plots.style import BRANCH, DROPPED, PALE, REFERENCE, STREAM, A, B

PARTS = ("input", "gate", "u", "raw dt", "x", "B", "C", "dt", "y", "output", "S")
"""The tensors of Mamba's mixer that ``plot_mamba`` draws; S is the state of its scan."""
CENTRED: dict[str, Any] = {"ha": "center", "va": "center"}
BOXES = {  # x, y, width and height of each step, and what it does
    "enter": (0.5, 8.6, 0.98, "linear, without a bias"),
    "silu": (0.105, 6.4, 0.19, "SiLU"),
    "taps": (0.49, 6.4, 0.5, "taps, SiLU"),
    "softplus": (0.885, 6.4, 0.21, "softplus"),
    "scan": (0.62, 4.2, 0.74, "scan with A; state S{S}; + D x"),
    "norm": (0.5, 2.0, 0.98, "times the gate, norm, linear"),
}
ARROWS = (  # what goes along it; across, from, to; the words above its shape
    ("input", (0.5, 10.6, 9.02), "input\n"),
    ("gate", (0.105, 8.18, 6.82), "gate\n"),
    ("u", (0.49, 8.18, 6.82), "u\n"),
    ("raw dt", (0.885, 8.18, 6.82), "raw dt\n"),
    ("gate", (0.105, 5.98, 2.42), ""),
    ("x", (0.32, 5.98, 4.62), "x\n"),
    ("B", (0.49, 5.98, 4.62), "B\n"),
    ("C", (0.66, 5.98, 4.62), "C\n"),
    ("dt", (0.885, 5.98, 4.62), "dt\n"),
    ("y", (0.62, 3.78, 2.42), "y\n"),
    ("output", (0.5, 1.58, 0.2), "output\n"),
)
TALL = 0.42  # half the height of a box
DOWN: dict[str, Any] = {"arrowprops": {"arrowstyle": "-|>", "color": REFERENCE, "shrinkA": 0, "shrinkB": 0}}


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


def plot_left(
    matrices: Mapping[str, ArrayLike], signs: Sequence[str], axes: Iterable[Axes], asked: int = 2
) -> list[Axes]:
    """Draw matrices of positions side by side, each over its largest, with the last ``asked`` rows framed."""
    panels = list(axes)
    for ax, (name, matrix) in zip(panels, matrices.items(), strict=True):
        weights = np.asarray(matrix, float)
        count = len(weights)
        plot_mixing_matrix(weights / (weights.max() or 1.0), ax, top=1.0, named=False)
        ax.set_xticks(range(count), list(signs))
        ax.set_yticks(range(count), list(signs) if ax is panels[0] else [""] * count)
        frame = (-0.5, count - asked - 0.5), count, asked
        ax.add_patch(Rectangle(*frame, fill=False, edgecolor=STREAM, lw=2, clip_on=False, zorder=3))
        ax.tick_params(length=0)
        ax.set_title(name, weight="normal")
    panels[0].set_ylabel("position that reads")
    panels[len(panels) // 2].set_xlabel("position that wrote")
    return panels


def plot_mamba(shapes: Mapping[str, Sequence[int]], ax: Axes) -> Axes:
    """Draw Mamba's mixer as boxes from the top down, with the shape of what goes along each arrow."""
    words = {name: " × ".join(f"{size:g}" for size in np.asarray(shape)) for name, shape in shapes.items()}
    state = f": {words['S']}" if "S" in words else ""
    for across, high, wide, told in BOXES.values():
        corner = across - wide / 2, high - TALL
        ax.add_patch(Rectangle(corner, wide, 2 * TALL, facecolor=PALE, edgecolor=REFERENCE))
        ax.text(across, high, told.format(S=state), **CENTRED)
    for name, (across, top, end), told in ARROWS:
        ax.annotate("", (across, end), (across, top), **DOWN)
        if name in words:
            ink = BRANCH if name in ("B", "C", "dt") else STREAM
            ax.text(across + 0.012, (top + end) / 2, told + words[name], color=ink, ha="left", va="center")
    ax.set(xlim=(0, 1.04), ylim=(0, 10.8))
    ax.axis("off")
    return ax

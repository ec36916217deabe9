"""The residual stream drawn as a river, once forward and once backward.

The upper river is as wide as the stream; each branch is a tributary as wide as its output. The lower river is the
gradient with respect to the stream; each tributary is the part of it that came through a branch. A norm is a lock.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from numpy.typing import ArrayLike

from residual_course.plots.style import BRANCH, DROPPED, GRADIENT, REFERENCE, STREAM

LONG = 100.0  # from the first place to the last
FULL = 1.0  # the width of a full bed
MIDDLE = 0.9  # from the line between the rivers to the middle of a bed
SPRING = 0.7  # how far outside its bed a tributary springs
FLOOD = 10.0  # unless it is told otherwise, a bed that swells more than this many times is cut off and hatched
TRICKLE = 0.005  # a tributary below this share of a full bed is not to be seen
DRY = 0.01  # a bed below this share of a full one is drawn as a dry one

CENTRED: dict[str, Any] = {"ha": "center", "va": "center"}
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@runtime_checkable
class Flow(Protocol):
    """Sizes by step and place, as ``GradientFlowRecorder`` gives them."""

    @property
    def activation(self) -> ArrayLike:
        """The stream before each block and after the last, (steps, blocks + 1)."""

    @property
    def added(self) -> ArrayLike:
        """What each block added, (steps, blocks)."""

    @property
    def stream_gradient(self) -> ArrayLike:
        """The gradient at the places of ``activation``."""

    @property
    def branch_gradient(self) -> ArrayLike:
        """What each branch added to the gradient, (steps, blocks)."""


@dataclass(frozen=True)
class River:
    """A river and its tributaries in the order of the flow, in drawn units."""

    sizes: np.ndarray
    added: np.ndarray
    side: int  # 1 above, flowing to the right; -1 below, flowing to the left
    color: str
    flood: float = FLOOD  # a bed that swells more than this many times is cut off

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return len(self.added)

    @property
    def scale(self) -> float:
        """Drawn units for one unit of size: the largest size fills the bed if it is 2 to ``flood`` times the first."""
        source = first_number(self.sizes)
        return FULL / float(
            np.clip(np.max(self.sizes, where=~np.isnan(self.sizes), initial=0), 2 * source, self.flood * source)
        )

    def along(self, flowed: ArrayLike) -> np.ndarray:
        """Return where on the page the water is after ``flowed`` blocks."""
        share = np.asarray(flowed, float) / self.blocks
        return LONG * (share if self.side > 0 else 1 - share)

    def swell(self, flowed: ArrayLike) -> np.ndarray:
        """Return how wide the water is after ``flowed`` blocks; it widens where a tributary joins."""
        block, rest = np.divmod(np.asarray(flowed, float), 1)
        joined = np.clip((rest - 0.55) / 0.45, 0, 1)
        smooth = block + joined * joined * (3 - 2 * joined)
        return self.scale * np.interp(smooth, np.arange(self.blocks + 1), self.sizes)

    def width(self, flowed: ArrayLike) -> np.ndarray:
        """Return how wide the bed is after ``flowed`` blocks, full at most."""
        return np.minimum(self.swell(flowed), FULL)


def plot_stream(flow: Flow, ax: Axes, step: int = 0, norms: str = "", flood: float = FLOOD) -> Axes:
    """Draw one step of ``flow`` as two rivers; ``norms`` is the norms' placement, "pre", "post" or "".

    The signal flows from left to right, the gradient from right to left. Each bed has its own scale, given by the
    numbers at its ends; one that swells more than ``flood`` times is cut off and hatched.
    """
    signal, added, delta, share = (
        np.asarray(sizes, float)[step]
        for sizes in (flow.activation, flow.added, flow.stream_gradient, flow.branch_gradient)
    )
    for river in (River(signal, added, 1, STREAM, flood), River(delta[::-1], share[::-1], -1, GRADIENT, flood)):
        draw_numbers(ax, river)
        if np.isfinite(river.sizes).any():
            draw_bed(ax, river)
            draw_tributaries(ax, river, norms)
            draw_locks(ax, river, norms)
    draw_captions(ax, len(added), norms)
    ax.set(xlim=(-19, LONG + 19), ylim=(-2.3, 2.3))
    ax.axis("off")
    return ax


def draw_bed(ax: Axes, river: River) -> None:
    """Fill the bed to its tip; hatch it where it floods, dot it where it is dry, and show which way it flows."""
    flowed = np.linspace(0, river.blocks, 40 * river.blocks + 1)
    along, half, middle = river.along(flowed), river.width(flowed) / 2, river.side * MIDDLE
    last = np.flatnonzero(np.isfinite(half))[-1]
    tip = along[last] + river.side * np.array([-0.3, 0, 2.2])
    for places, banks in ((along, half), (tip, half[last] * np.array([1, 1, 0]))):
        ax.fill_between(places, middle - banks, middle + banks, color=river.color, lw=0, zorder=2)
    flood, dry = river.swell(flowed) > 1.001 * FULL, 2 * half < DRY
    hatch = ax.fill_between(along, middle - half, middle + half, where=flood, facecolor="none", lw=0, zorder=3)
    hatch.set(hatch="////", edgecolor="white", alpha=0.6)
    ax.plot(np.where(dry, along, np.nan), np.full_like(along, middle), color=river.color, lw=1.4, ls=":", zorder=2)
    off = "off the chart" if flood.mean() > 0.35 else "off the\nchart"  # two lines where one would not fit
    notes = ((flood, 0.2, off, "white", river.color, 0.0), (dry, 0.2, "dry", river.color, "none", 0.17))
    for where, room, word, color, back, height in notes:
        if where.mean() > room:
            box = {"facecolor": back, "edgecolor": "none", "pad": 1.5}  # the hatch passes behind the words
            style: dict[str, Any] = {"color": color, "weight": "bold", "bbox": box, **CENTRED, "zorder": 5}
            ax.text(along[where].mean(), middle + height, word, **style)
    draw_chevrons(ax, river)


def draw_chevrons(ax: Axes, river: River) -> None:
    """Draw arrowheads in the bed, where it is neither narrow nor flooded, pointing the way it flows."""
    flowed = np.floor(river.blocks * np.array([0.12, 0.5, 0.88])) + 0.5  # between the locks
    middle = river.side * MIDDLE
    for tip, swell in zip(river.along(flowed), river.swell(flowed), strict=True):
        if 0.1 * FULL < swell <= FULL:
            high, tail = 0.22 * swell, tip - river.side * 2 * swell
            path = [tail, tip, tail], [middle + high, middle, middle - high]
            ax.plot(*path, color="white", lw=1.6, alpha=0.85, solid_capstyle="round", zorder=4)


def draw_tributaries(ax: Axes, river: River, norms: str) -> None:
    """Draw each tributary, narrow at its spring, to the bank that it joins; before it, in pre-norm, a lock."""
    u = np.linspace(0, 1, 40)
    beds = river.width(np.arange(1, river.blocks + 1))
    shapes, edges, locks = [], [], []
    for block in np.flatnonzero(np.isfinite(river.added)):
        width = min(river.added[block] * river.scale, FULL / 2)
        widths = np.interp(u, [0, 0.45, 0.75, 1], [0.15 * width, width, width, min(width, beds[block])])
        bank = beds[block] / 2 + SPRING * (1 - u * u * (3 - 2 * u))
        along = river.along(block + 1 - span(river.blocks) * (1 - u))
        banks = river.side * (MIDDLE + np.stack([bank, bank - widths]))
        shapes.append(np.column_stack([np.append(along, along[::-1]), np.append(banks[0], banks[1][::-1])]))
        # A white edge keeps wide ones apart; their own colour keeps thin ones visible; nothing is drawn for nothing.
        edges.append("white" if width > 0.08 else BRANCH if width > TRICKLE else "none")
        locks.append((along[6], *(banks[:, 6] + river.side * np.array([0.05, -0.05]))))
    ax.add_collection(PolyCollection(shapes, facecolor=BRANCH, edgecolor=edges, lw=0.4, zorder=1.5))
    if norms == "pre" and locks:
        ax.vlines(*np.transpose(locks), color=REFERENCE, lw=lock_width(river.blocks), zorder=4)


def span(blocks: int) -> float:
    """Return how many blocks a tributary is long: nearly one, more where blocks are narrow."""
    return max(0.92, blocks / 18)


def lock_width(blocks: int) -> float:
    """Return a lock's width in points, less where locks are close."""
    return min(1.8, 30 / blocks)


def draw_locks(ax: Axes, river: River, norms: str) -> None:
    """Draw, in post-norm, a lock across the bed after each block."""
    if norms != "post":
        return
    blocks = np.arange(1, river.blocks + 1)
    half, middle = river.width(blocks) / 2 + 0.05, np.full(len(blocks), river.side * MIDDLE)
    ax.vlines(river.along(blocks), middle - half, middle + half, color=REFERENCE, lw=lock_width(len(blocks)), zorder=4)


def draw_numbers(ax: Axes, river: River) -> None:
    """Write the name and the size at both ends."""
    finite = river.sizes[np.isfinite(river.sizes)]
    name = "signal" if river.side > 0 else "gradient"
    source, mouth = (-1.5, LONG + 4) if river.side > 0 else (LONG + 1.5, -4)
    left, right = ("right", "left") if river.side > 0 else ("left", "right")
    style: dict[str, Any] = {"va": "center", "color": river.color, "linespacing": 1.25}
    for place, side, word, sizes in ((source, left, f"{name} in", finite[:1]), (mouth, right, "out", finite[-1:])):
        ax.text(place, river.side * MIDDLE, "\n".join([word, *map(number, sizes)]), ha=side, weight="bold", **style)


def draw_captions(ax: Axes, blocks: int, norms: str) -> None:
    """Label the tributaries and the locks, and number the blocks between the rivers."""
    beside: dict[str, Any] = {"color": BRANCH, "va": "center", "linespacing": 1.2}
    ax.text(LONG + 4, 1.85, "what each\nblock adds", ha="left", **beside)
    ax.text(-4, -1.85, "what came\nback through it", ha="right", **beside)
    if norms:
        ax.text(LONG + 4, 0, "▏ a norm", color=REFERENCE, ha="left", va="center")
    for block in sorted({1, *np.linspace(0, blocks, 5, dtype=int)} - {0}):
        word = f"block {block}" if block == 1 else str(block)
        ax.text(LONG * (block - 0.5) / blocks, 0, word, color=DROPPED, **CENTRED)


def number(size: float) -> str:
    """Return a size with three digits, tiny and huge ones as a power of ten."""
    if size == 0 or 0.001 <= abs(size) < 10000:
        return f"{size:.3g}"
    digits, power = f"{size:.1e}".split("e")
    return f"{digits}·10{str(int(power)).translate(RAISED)}"


def first_number(sizes: np.ndarray) -> float:
    """Return the first size above 0, or 1 where there is none."""
    flowing = sizes[np.isfinite(sizes) & (sizes > 0)]
    return float(flowing[0]) if len(flowing) else 1.0

"""The stream as a river: what flows through a residual stack, and what flows back.

The upper bed is as wide as the residual stream, and each branch is a tributary as wide as what it adds. The lower bed
is the gradient on its way back, each tributary the share that came through a branch.
"""

from typing import Protocol, runtime_checkable

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from residual_edu.plotting.style import BRANCH, GRADIENT, REFERENCE, STREAM

SIGNAL_BED, GRADIENT_BED = 1.15, -1.15  # where the middles of the two beds lie
FULL = 1.0  # the width of a full bed
SPRING = 0.62  # how far outside a full bed the tributaries rise
FLOOD = 10  # a bed that swells more than this many times is cut off, and hatched


@runtime_checkable
class Flow(Protocol):
    """What a recorder holds: sizes by step and place, as ``GradientFlowRecorder`` gives them."""

    @property
    def activation(self) -> ArrayLike:
        """The stream before each block and after the last, (steps, blocks + 1)."""

    @property
    def added(self) -> ArrayLike:
        """What each block added, (steps, blocks)."""

    @property
    def delta(self) -> ArrayLike:
        """The gradient at the places of ``activation``."""

    @property
    def branch_share(self) -> ArrayLike:
        """What each branch added to the gradient, (steps, blocks)."""


def plot_stream(flow: Flow, ax: Axes, step: int = 0, norms: str = "") -> Axes:
    """Draw one step of ``flow`` as two rivers; ``norms`` says where a norm stands, "pre", "post" or "".

    The signal flows from left to right, the gradient from right to left. Each bed has its own scale, given by the
    numbers at its ends; one that swells more than ten times is cut off and hatched. A norm is a lock, a dark bar.
    """
    signal, added, delta, share = (
        np.asarray(sizes, float)[step] for sizes in (flow.activation, flow.added, flow.delta, flow.branch_share)
    )
    river(ax, signal, added, SIGNAL_BED, (STREAM, BRANCH))
    river(ax, delta[::-1], share[::-1], GRADIENT_BED, (GRADIENT, BRANCH), flip=True)
    locks(ax, signal, added, norms)
    return captions(ax, signal, delta)


def river(
    ax: Axes, sizes: np.ndarray, joins: np.ndarray, middle: float, inks: tuple[str, str], flip: bool = False
) -> None:
    """Draw one bed in the order of its flow, with its tributaries; ``flip`` lets it flow to the left."""
    blocks, per_size = len(joins), FULL / top_of(sizes)
    outside = np.sign(middle)
    fine = np.linspace(0, blocks, 60 * blocks + 1)
    half = np.interp(fine, range(blocks + 1), np.minimum(sizes * per_size, FULL)) / 2
    along = blocks - fine if flip else fine
    ax.fill_between(along, middle - half, middle + half, color=inks[0], lw=0, zorder=2)
    flooded = np.interp(fine, range(blocks + 1), sizes * per_size) > FULL * 1.001
    banks = np.where(flooded, middle - half, np.nan), np.where(flooded, middle + half, np.nan)
    ax.fill_between(along, *banks, facecolor="none", edgecolor="white", hatch="////", lw=0, zorder=3)
    for block, width in enumerate(np.minimum(joins * per_size, FULL)):
        ends = np.array([block + 1 - span(blocks), block + 1])
        bed = half[60 * (block + 1)]
        heights = middle + outside * (FULL / 2 + SPRING), middle + outside * bed
        tributary(ax, blocks - ends if flip else ends, heights, (width, min(width, 2 * bed)), inks[1])
    tip, point = np.array([blocks, 1.03 * blocks]), half[-1] * np.array([1, 0])
    ax.fill_between(blocks - tip if flip else tip, middle - point, middle + point, color=inks[0], lw=0)


def tributary(ax: Axes, ends: np.ndarray, heights: tuple[float, float], widths: tuple[float, float], ink: str) -> None:
    """Draw a ribbon from its spring down to the bank, where it joins the bed from outside."""
    u = np.linspace(0, 1, 40)
    fall = u * u * (3 - 2 * u)
    outer = heights[0] + np.sign(heights[0]) * widths[0] / 2
    outer = outer + (heights[1] - outer) * fall
    width = widths[0] + (widths[1] - widths[0]) * fall
    inner = outer - np.sign(heights[0]) * width
    ax.fill_between(ends[0] + (ends[1] - ends[0]) * u, outer, inner, color=ink, alpha=0.75, lw=0)


def span(blocks: int) -> float:
    """Return how many blocks a tributary is long: nearly one, more where blocks are narrow."""
    return max(0.95, blocks / 16)


def top_of(sizes: np.ndarray) -> float:
    """Return the size that fills a bed: the largest, yet at least twice and at most ten times what flows in first."""
    source = next((size for size in sizes if size > 0), 1.0)
    return float(np.clip(np.nanmax(sizes), 2 * source, FLOOD * source))


def locks(ax: Axes, signal: np.ndarray, added: np.ndarray, norms: str) -> None:
    """Draw a bar for each norm: across the bed behind every block (post), or where a branch begins (pre)."""
    per_size, blocks = FULL / top_of(signal), np.arange(1, len(signal))
    if norms == "post":
        half = np.minimum(signal[1:] * per_size, FULL) / 2 + 0.08
        ax.vlines(blocks, SIGNAL_BED - half, SIGNAL_BED + half, color=REFERENCE, lw=1.5, zorder=4)
    if norms == "pre":
        spring, half = SIGNAL_BED + FULL / 2 + SPRING, np.minimum(added * per_size, FULL) / 2 + 0.05
        ax.vlines(blocks - span(len(blocks)), spring - half, spring + half, color=REFERENCE, lw=1.5, zorder=4)


def captions(ax: Axes, signal: np.ndarray, delta: np.ndarray) -> Axes:
    """Write what flows where, and the sizes at both ends."""
    blocks = len(signal) - 1
    for sizes, middle, ink, name in (
        (signal, SIGNAL_BED, STREAM, "signal"),
        (delta, GRADIENT_BED, GRADIENT, "gradient"),
    ):
        for place, side, size in ((-0.05, "right", sizes[0]), (1.05, "left", sizes[-1])):
            words = f"{name}\n{size:.3g}" if np.isfinite(size) else name
            ax.text(place * blocks, middle, words, color=ink, ha=side, va="center", weight="bold")
    ax.text(-0.075 * blocks, 2.1, "what each\nblock adds", color=BRANCH, ha="right", va="center")
    ax.text(1.075 * blocks, -2.1, "what came\nback that way", color=BRANCH, ha="left", va="center")
    ax.set(xlim=(-0.2 * blocks, 1.2 * blocks), ylim=(-2.7, 2.7))
    ax.axis("off")
    return ax

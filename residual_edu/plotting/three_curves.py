"""Three curves along a stack, the gradient's parts along skip and branch, and its size at every training step."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from numpy.typing import ArrayLike

from residual_edu.plotting.style import BRANCH, GRADIENT, STREAM, A
from residual_edu.renamed import refuse_old_names

COLORS = {"activation": STREAM, "stream gradient": GRADIENT, "weight gradient": A}
DASHES = {"activation": "-", "stream gradient": "-.", "weight gradient": "--"}


def plot_three_curves(curves: Mapping[str, ArrayLike], ax: Axes) -> Axes:
    """Draw sizes against the place along a stack, ``(seeds, places)`` each, one line a seed, on a log scale.

    ``curves`` has some of "activation" and "stream gradient", measured between the layers, and "weight gradient",
    measured in them: one place fewer, drawn halfway. ``label_curves`` writes their names.
    """
    longest = max(np.shape(values)[-1] for values in curves.values())
    for name, values in curves.items():
        rows = np.atleast_2d(np.asarray(values, float))
        places = np.arange(rows.shape[-1]) + (0.5 if name == "weight gradient" else 0)
        ax.plot(places, rows.T, color=COLORS[name], ls=DASHES[name], lw=1.6)
    ax.set(yscale="log", xlabel="layers passed", ylabel="root mean square", xlim=(0, longest))
    ax.set_xticks(range(0, longest + 1, max(longest // 4, 1)))
    return ax


def label_curves(ax: Axes, places: Mapping[str, tuple[float, float]]) -> Axes:
    """Write the name of each curve in its colour, beginning at a place in data coordinates."""
    for name, (x, y) in places.items():
        ax.text(x, y, name, color=COLORS[name], weight="bold", va="center")
    return ax


def plot_shares(skip: ArrayLike, branch: ArrayLike, ax: Axes) -> Axes:
    """Draw the gradient's parts along the skip and through the branch of each block, ``(seeds, blocks)`` each."""
    looks = ((skip, GRADIENT, "o", "along the skip"), (branch, BRANCH, "s", "through the branch"))
    for values, color, mark, words in looks:
        rows = np.asarray(values, float)
        blocks = np.arange(1, rows.shape[-1] + 1)
        ax.plot(blocks, rows.T, color=color, marker=mark, ms=3.5, lw=1.2)
        end = (blocks[-1], float(np.median(rows[:, -1])))
        ax.annotate(words, end, (10, 0), color=color, weight="bold", textcoords="offset points", va="center")
    ax.set(xlabel="block", ylabel="size, against the delta at the end", ylim=(0, None))
    return ax


def plot_heat_map(delta: ArrayLike, ax: Axes, low: float, high: float) -> Axes:
    """Draw ``(steps, places)`` sizes as a field, the first place at the bottom, on a log scale from low to high."""
    field = np.asarray(delta, float).T
    ax.imshow(
        field, aspect="auto", origin="lower", cmap="viridis", norm=LogNorm(low, high, clip=True), interpolation="none"
    )
    ax.set(xlabel="training step", ylabel="layers passed")
    return ax


refuse_old_names(__name__)

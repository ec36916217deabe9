"""What LayerNorm and RMSNorm do to a token."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from residual_edu.plotting.style import BRANCH, DROPPED, REFERENCE, SERIES, STREAM

LINES = [(color, dash) for color, dash, _ in SERIES]


def plot_around_ones(points: ArrayLike, ax: Axes) -> Axes:
    """Draw rows of three numbers ``(n, 3)`` around the line where all three are equal, seen from the side.

    The plane through 0 perpendicular to that line, and on it the circle of radius sqrt(3), are drawn as guides; the
    first three rows are numbered, so that they can be followed from one panel to the next.
    """
    turn = np.linspace(0, 2 * np.pi, 200)
    rim = np.stack([np.cos(turn), np.sin(turn), 0 * turn], axis=-1) @ FRAME
    ax.fill(*_seen(3.2 * rim), color=REFERENCE, alpha=0.08, linewidth=0)
    ax.plot(*_seen(np.outer([-1.9, 4.4], FRAME[2])), color=REFERENCE, linewidth=1)
    ax.plot(*_seen(np.sqrt(3) * rim), color=REFERENCE, linewidth=1, linestyle="--")
    across, up = _seen(np.asarray(points))
    ax.scatter(across, up, s=9, color=STREAM, alpha=0.5, linewidths=0)
    ax.scatter(across[:3], up[:3], s=150, color=BRANCH, zorder=3)
    for number, place in enumerate(zip(across[:3], up[:3], strict=True), start=1):
        ax.annotate(str(number), place, color="white", weight="bold", ha="center", va="center", zorder=4)
    ax.annotate("all three equal", tuple(_seen(-1.9 * FRAME[2])), (5, 0), textcoords="offset points")
    ax.set(xlim=(-3.4, 3.4), ylim=(-1.9, 4.3), aspect="equal")
    ax.set_axis_off()
    return ax


FRAME = np.array([[1, -1, 0], [1, 1, -2], [1, 1, 1]]) / np.sqrt([[2], [6], [3]])  # the last row is the line of ones


def _seen(points: np.ndarray) -> np.ndarray:
    """Return the coordinates on the page, ``(2, n)``, seen from a little above the plane."""
    across, deep, along = FRAME @ points.T
    return np.stack([across, 0.35 * deep + 0.94 * along])


def plot_floors(spread: ArrayLike, lengths: Mapping[str, ArrayLike], floors: Mapping[str, float], ax: Axes) -> Axes:
    """Draw the length of normalised rows (root mean square) against the spread of the rows, one line per norm.

    Each name in ``floors`` marks the spread where the norm of the same name has fallen to its floor.
    """
    for (colour, style), (name, length) in zip(LINES, lengths.items(), strict=False):
        ax.semilogx(spread, length, color=colour, linestyle=style)
        ax.axvline(floors[name], color=colour, linewidth=1)
        ax.annotate(f" {name}", (floors[name], 1.06), color=colour, weight="bold")
    ax.set(xlabel="spread of the row (its standard deviation)", ylabel="length of the output (rms)", ylim=(0, 1.18))
    return ax


def plot_influence(depends: ArrayLike, cell: tuple[int, int], ax: Axes) -> Axes:
    """Draw a table of rows and features, coloured where the output at ``cell`` depends on the entry, by ``depends``."""
    depends = np.asarray(depends)
    rows, features = depends.shape
    for row, feature in np.ndindex(rows, features):
        colour = STREAM if depends[row, feature] else "white"
        ax.add_patch(Rectangle((feature, row), 1, 1, facecolor=colour, edgecolor=DROPPED, linewidth=1))
    ax.plot(cell[1] + 0.5, cell[0] + 0.5, "o", color=BRANCH, markersize=11, markeredgecolor="white")
    ax.set(xlim=(0, features), ylim=(rows, 0), aspect="equal", xlabel="feature", ylabel="row")
    ax.set(xticks=np.arange(features) + 0.5, xticklabels=range(features))
    ax.set(yticks=np.arange(rows) + 0.5, yticklabels=range(rows))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return ax


def plot_strips(values: ArrayLike, names: Sequence[str], ax: Axes) -> Axes:
    """Draw a table ``(rows, features)`` as one strip of dots per feature."""
    values = np.asarray(values)
    for place, column in enumerate(values.T):
        jitter = 0.6 * (np.arange(len(column)) * 0.618 % 1 - 0.5)
        ax.scatter(column, place + jitter, s=6, color=BRANCH, alpha=0.5, linewidths=0)
    ax.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.4, -0.6), xlabel="normalised value")
    ax.axvline(0, color=REFERENCE, linewidth=0.8, zorder=0)
    return ax


def plot_image(image: ArrayLike, ax: Axes, low: float, high: float) -> Axes:
    """Draw an image in grey, ``low`` black and ``high`` white, in a thin frame."""
    ax.imshow(image, cmap="gray", vmin=low, vmax=high)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color=DROPPED)
    return ax


def plot_singular_values(values: Mapping[str, ArrayLike], ax: Axes) -> Axes:
    """Draw the singular values of one Jacobian per name, side by side, and write 0 where one is zero."""
    width = 0.8 / len(values)
    for shift, ((colour, _), (name, sizes)) in enumerate(zip(LINES, values.items(), strict=False)):
        found = np.asarray(sizes)
        places = np.arange(1, len(found) + 1) + (shift + 0.5) * width - 0.4
        ax.bar(places, found, width, color=colour, label=name)
        for place in places[found < 1e-9]:
            ax.annotate("0", (place, 0), color=colour, weight="bold", ha="center", va="bottom")
    ax.set(xlabel="singular value, largest first", ylabel="gain", xticks=range(1, len(found) + 1))
    ax.margins(y=0.25)
    ax.legend(loc="upper right", ncols=len(values))
    return ax


def plot_variance_errors(offsets: ArrayLike, errors: Mapping[str, ArrayLike], ax: Axes) -> Axes:
    """Draw the relative error of a variance over the mean of the row, one labelled line for each formula."""
    for (colour, style), (name, error) in zip(LINES, errors.items(), strict=False):
        ax.loglog(offsets, error, color=colour, linestyle=style)
        end = (1.02, np.asarray(error)[-1])
        ax.annotate(name, end, xycoords=("axes fraction", "data"), color=colour, va="center", annotation_clip=False)
    ax.axhline(1, color=REFERENCE, linewidth=0.8)
    ax.annotate("all error", (np.asarray(offsets)[0], 1.3), color=REFERENCE)
    ax.set(xlabel="mean of the row (its spread is 1)", ylabel="relative error of the variance")
    return ax

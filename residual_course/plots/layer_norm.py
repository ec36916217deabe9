"""The pictures of the lesson on LayerNorm: losses, a norm's two steps, what it depends on, and which rates work."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from residual_course.plots.style import DROPPED, REFERENCE, SERIES, A

# Three perpendicular directions of length 1; the last is that of rows whose numbers are all equal.
ACROSS, DEEP, UP = np.array([[1, -1, 0], [1, 1, -2], [1, 1, 1]]) / np.sqrt([[2], [6], [3]])

SHIFTS = (0.85, 0.95, 1.06, 1.18)  # so that the marks of four series stand beside each other


def plot_two_steps(rows: ArrayLike, flat: ArrayLike, ends: ArrayLike, side: Axes, above: Axes) -> None:
    """Draw the way of rows of three numbers ``(n, 3)`` to the circle of radius sqrt(3), in two views.

    Args:
        rows: the rows.
        flat: the rows without their means, on the plane perpendicular to (1, 1, 1).
        ends: the normalised rows.
        side: where the step from ``rows`` to ``flat`` is drawn, seen from the side.
        above: where the step from ``flat`` to ``ends`` is drawn, seen from above.
    """
    views = (side, UP, rows, flat, "along (1, 1, 1)"), (above, DEEP, flat, ends, "along (1, 1, −2)")
    for ax, direction, start, end, name in views:
        begin, finish = (
            np.stack([np.asarray(points) @ ACROSS, np.asarray(points) @ direction]) for points in (start, end)
        )
        ax.plot(*np.stack([begin, finish], axis=1), color=A, linewidth=1.4)
        ax.plot(*begin, "o", color=REFERENCE, markerfacecolor="white", markersize=6)
        ax.plot(*finish, "o", color=A, markersize=6)
        ax.plot(0, 0, "+", color=REFERENCE, markersize=10)
        ax.set(aspect="equal", xlim=(-2.7, 2.7), ylim=(-2.7, 2.7), xlabel="along (1, −1, 0)", ylabel=name)
    turn = np.linspace(0, 2 * np.pi, 200)
    side.axhline(0, color=DROPPED, linewidth=0.8)
    above.plot(np.sqrt(3) * np.cos(turn), np.sqrt(3) * np.sin(turn), color=DROPPED, linewidth=0.8)


def plot_by_rate(shares: Mapping[str, Mapping[float, Sequence[float]]], ax: Axes) -> Axes:
    """Draw what is right after training against the learning rate: a mark a seed, and a line through the worst.

    Args:
        shares: for each name, at most four, and each learning rate, the share that is right with each seed.
        ax: where to draw; the horizontal axis is logarithmic.
    """
    for shift, (colour, dash, mark), (name, by_rate) in zip(SHIFTS, SERIES, shares.items(), strict=False):
        rates = sorted(by_rate)
        ax.semilogx(rates, [min(by_rate[rate]) for rate in rates], dash, color=colour, label=name)
        for rate in rates:
            seeds = by_rate[rate]
            ax.semilogx([rate * shift] * len(seeds), seeds, mark, color=colour, markerfacecolor="none", markersize=6)
    every = sorted({rate for by_rate in shares.values() for rate in by_rate})
    ax.set_xticks(every, [f"{rate:g}" for rate in every])
    ax.set_xlim(every[0] / 8, 1.6 * every[-1])  # room for the names
    ax.set(xlabel="learning rate of W", ylabel="share right (line: worst seed)", ylim=(-0.04, 1.04))
    ax.legend(loc="lower left")
    return ax


def plot_image(image: ArrayLike, ax: Axes, low: float, high: float) -> Axes:
    """Draw an image in grey, ``low`` black and ``high`` white, in a thin frame."""
    ax.imshow(image, cmap="gray", vmin=low, vmax=high)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color=DROPPED)
    return ax


def plot_before_and_after(before: ArrayLike, after: ArrayLike, names: Sequence[str], figure: Figure) -> None:
    """Draw normalised images ``after`` (n, height, width), from -2 to 2, below those ``before``, from 0 to 1."""
    rows = figure.subplots(2, len(names))
    for axes, images, low, high in zip(rows, (before, after), (0.0, -2.0), (1.0, 2.0), strict=True):
        for ax, image in zip(axes, np.asarray(images), strict=True):
            plot_image(image, ax, low, high)
    for ax, name in zip(rows[0], names, strict=True):
        ax.set_title(name, weight="normal", loc="center")
    rows[0, 0].set_ylabel("input\nblack 0, white 1")
    rows[1, 0].set_ylabel("output\nblack −2, white 2")


def plot_influence(depends: ArrayLike, cell: tuple[int, int], ax: Axes) -> Axes:
    """Draw a table of rows and features, coloured where the output at ``cell`` depends on the entry, by ``depends``."""
    depends = np.asarray(depends)
    rows, features = depends.shape
    for row, feature in np.ndindex(rows, features):
        colour = A if depends[row, feature] else "white"
        ax.add_patch(Rectangle((feature, row), 1, 1, facecolor=colour, edgecolor=DROPPED, linewidth=1))
    ax.plot(cell[1] + 0.5, cell[0] + 0.5, "o", color=REFERENCE, markersize=11, markeredgecolor="white")
    ax.set(xlim=(0, features), ylim=(rows, 0), aspect="equal", xlabel="feature", ylabel="row")
    ax.set(xticks=np.arange(features) + 0.5, xticklabels=range(features))
    ax.set(yticks=np.arange(rows) + 0.5, yticklabels=range(rows))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return ax


def plot_losses(losses: Sequence[Sequence[float]], ax: Axes, guessing: float) -> Axes:
    """Draw the loss of each training before each step on a logarithmic axis, and the loss of ``guessing``."""
    for one, dash in zip(losses, ("-", "--", ":"), strict=True):
        ax.semilogy(one, dash, color=A, linewidth=1.4)
    ax.axhline(guessing, color=REFERENCE, linewidth=1)
    ax.text(2, 0.57 * guessing, f"guessing at random: {guessing:.1f}")
    ax.set(xlabel="step", ylabel="training loss", ylim=(0.4 * guessing, 3 * max(map(max, losses))))
    ticks = [10**k for k in range(5)]
    ax.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
    return ax

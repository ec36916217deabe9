"""The pictures of the lesson on LayerNorm: four numbers, a norm's two steps, losses, what an output depends on."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from residual_course.plots.style import DROPPED, REFERENCE, A, B

# Three perpendicular directions of length 1; the last is that of rows whose numbers are all equal.
ACROSS, DEEP, UP = np.array([[1, -1, 0], [1, 1, -2], [1, 1, 1]]) / np.sqrt([[2], [6], [3]])


def plot_four_numbers(*rows: ArrayLike) -> Figure:
    """Draw a row of numbers, the row centred, and the centred row divided, one below the other."""
    figure = Figure(figsize=(6, 3.4))
    names = "the row", "centred", "divided by 5"
    for ax, row, name in zip(figure.subplots(3, sharex=True), rows, names, strict=True):
        numbers = np.asarray(row)
        ax.axvline(0, color=DROPPED, linewidth=0.8, zorder=0)
        ax.plot(numbers, 0 * numbers, "o", color=A, markersize=7, clip_on=False)
        for number in numbers:
            words = f"{number:.2g}".replace("-", "−")
            side = "right" if number < 0 else "left" if number > 0 else "center"
            ax.annotate(words, (number, 0), (0, 8), textcoords="offset points", ha=side)
        ax.plot(numbers.mean(), -0.32, "^", color=REFERENCE, markersize=8)
        ax.set(ylim=(-0.6, 0.9), xlim=(-8.5, 8.5), yticks=[])
        ax.set_title(name, weight="normal")
        ax.spines["left"].set_visible(False)
        ax.tick_params(length=0, labelbottom=False)
    figure.suptitle("First the mean goes to 0, then the size to 1", weight="bold")
    return figure


def plot_two_steps(rows: ArrayLike, flat: ArrayLike, ends: ArrayLike) -> Figure:
    """Draw the way of rows of three numbers ``(n, 3)`` to the circle of radius sqrt(3), in two views.

    Args:
        rows: the rows.
        flat: the rows without their means, on the plane perpendicular to (1, 1, 1).
        ends: the normalised rows.

    Returns:
        The step from ``rows`` to ``flat`` seen from the side, and that from ``flat`` to ``ends`` seen from above.
    """
    figure = Figure(figsize=(6, 3.6))
    side, above = figure.subplots(1, 2)
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
    figure.suptitle("First onto the plane, then onto the circle", weight="bold")
    return figure


def plot_image(image: ArrayLike, ax: Axes, low: float, high: float) -> Axes:
    """Draw an image in grey, ``low`` black and ``high`` white, in a thin frame."""
    ax.imshow(image, cmap="gray", vmin=low, vmax=high)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color=DROPPED)
    return ax


def plot_before_and_after(before: ArrayLike, after: ArrayLike, names: Sequence[str]) -> Figure:
    """Draw normalised images ``after`` (n, height, width), from -2 to 2, below those ``before``, from 0 to 1."""
    figure = Figure(figsize=(6, 3.7))
    rows = figure.subplots(2, len(names))
    for axes, images, low, high in zip(rows, (before, after), (0.0, -2.0), (1.0, 2.0), strict=True):
        for ax, image in zip(axes, np.asarray(images), strict=True):
            plot_image(image, ax, low, high)
    for ax, name in zip(rows[0], names, strict=True):
        ax.set_title(name, weight="normal", loc="center")
    rows[0, 0].set_ylabel("input\nblack 0, white 1")
    rows[1, 0].set_ylabel("output\nblack −2, white 2")
    figure.suptitle("What comes out of the four pictures", weight="bold")
    return figure


def plot_influences(depends: Mapping[str, ArrayLike], cell: tuple[int, int]) -> Figure:
    """Draw a table for each norm: the entries on which its output at ``cell`` depends."""
    figure = Figure(figsize=(6, 3.2))
    for ax, (name, table) in zip(figure.subplots(1, len(depends)), depends.items(), strict=True):
        plot_influence(table, cell, ax).set_title(name, size=11, loc="left")
    figure.suptitle("One along the row, the other down the column", weight="bold")
    return figure


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


def plot_halves(four: Mapping[str, Sequence[tuple[Sequence[float], float]]]) -> Figure:
    """Draw the losses of four networks, each with three seeds, and the share that each seed reads correctly."""
    figure = Figure(figsize=(6, 4.6))
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    for ax, (name, seeds) in zip(axes.flat, four.items(), strict=True):
        learns = min(share for _, share in seeds) > 0.8
        for losses, _ in seeds:
            ax.semilogy(losses, "-" if learns else "--", color=B if learns else A, linewidth=1.4)
        ax.axhline(2.3, color=REFERENCE, linewidth=0.6, zorder=0)
        ax.set(title=name, ylim=(0.02, 4e4), yticks=[0.1, 1, 10, 100, 1000, 10000])
        ax.minorticks_off()
        ax.text(98, 7000, f"read: {', '.join(f'{share:.0%}' for _, share in seeds)}", ha="right")
    for ax in axes[:, 0]:
        ax.set_ylabel("training loss")
    for ax in axes[1]:
        ax.set_xlabel("training step")
    figure.suptitle("Only the networks that divide begin small", weight="bold")
    return figure

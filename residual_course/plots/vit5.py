"""ViT-5: the layout of tokens, competing channels, attention maps and costs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from residual_course.plots.style import DROPPED, REFERENCE, SERIES, A, B, words_on

CELL: dict[str, Any] = {"ha": "center", "va": "center"}


def plot_layout(image: ArrayLike, patch: int, others: Sequence[str], ax: Axes) -> Axes:
    """Draw an image, (height, width, 3), cut into squares of ``patch`` pixels, and ``others``, by name, as rows below.

    The squares are numbered as tokens, row by row; a cell after the last of ``others`` is padding.
    """
    image = np.asarray(image, float)
    rows, columns = image.shape[0] // patch, image.shape[1] // patch
    ax.imshow(image[: rows * patch, : columns * patch], extent=(0, columns, rows, 0))
    ends = -(-len(others) // columns)
    for place in range(columns * ends):
        name = others[place] if place < len(others) else "0"
        color = DROPPED if name == "0" else A if name == "CLS" else B
        row, column = rows + place // columns, place % columns
        ax.fill([column, column + 1, column + 1, column], [row, row, row + 1, row + 1], color=color, alpha=0.35, lw=0)
        ax.text(column + 0.5, row + 0.5, name, color=REFERENCE, weight="bold", **CELL)
    for row in range(rows + ends + 1):
        ax.axhline(row, color="white", lw=1.2)
    for column in range(columns + 1):
        ax.axvline(column, color="white", lw=1.2)
    for row in range(rows):
        for column in (0, columns - 1):
            text = ax.text(column + 0.5, row + 0.5, str(row * columns + column), color="white", **CELL)
            text.set_bbox({"boxstyle": "round,pad=0.2", "color": REFERENCE, "alpha": 0.6, "lw": 0})
    ax.set(xlim=(0, columns), ylim=(rows + ends, 0), xticks=[], yticks=[], aspect="equal")
    ax.spines[:].set_visible(False)
    return ax


def plot_tokens(picture: ArrayLike, registers: int, ax: Axes) -> Axes:
    """Draw a grey picture, (side, side), cut into 4 by 4 patches, and its tokens: CLS, the patches, ``registers``."""
    image = np.asarray(picture, float)
    cut = len(image) // 4
    patches = [image[cut * i : cut * i + cut, cut * j : cut * j + cut] for i in range(4) for j in range(4)]
    look: dict[str, Any] = {"cmap": "Greys", "vmin": 0, "vmax": 1}
    for place, patch in enumerate(patches):
        row, column = place // 4, 8 + place % 4
        for left, top, side in ((1.1 * column - 0.8, 1.1 * row, 1), (place + 1.1, 6, 0.9)):
            right, bottom = left + side, top + side
            ax.imshow(patch, extent=(left, right, bottom, top), **look)
            ax.plot([left, right, right, left, left], [top, top, bottom, bottom, top], color=DROPPED, lw=0.8)
    for place, color in [(0, A), *((17 + one, B) for one in range(registers))]:
        ax.fill(place + np.array([0.1, 1, 1, 0.1]), [6, 6, 6.9, 6.9], color=color, alpha=0.35, lw=0)
    ax.text(0.1, 5.4, "CLS", color=REFERENCE, ha="left", va="center")
    ax.text(17 + registers / 2, 5.4, "registers", color=REFERENCE, **CELL)
    ax.set(xlim=(0, 17.2 + registers), ylim=(7, 0), xticks=[], yticks=[], aspect="equal")
    ax.spines[:].set_visible(False)
    return ax


def plot_competition(shares: Mapping[str, ArrayLike], channels: Sequence[str], ax: Axes) -> Axes:
    """Draw the size of each channel over the mean size, a bar for each of the samples that ``shares`` names."""
    places, height = np.arange(len(channels)), 0.8 / len(shares)
    for which, ((name, share), (color, _, _)) in enumerate(zip(shares.items(), SERIES, strict=False)):
        at = places + (which - (len(shares) - 1) / 2) * height
        look: dict[str, Any] = {"color": color, "hatch": "" if which else "///", "edgecolor": "white", "lw": 0}
        ax.barh(at, np.asarray(share, float), 0.92 * height, **look)
        widest = int(np.argmax(share))
        ax.annotate(
            name,
            (float(np.asarray(share, float)[widest]), at[widest]),
            (5, 0),
            textcoords="offset points",
            color=color,
            weight="bold",
            va="center",
        )
    ax.axvline(1, color=REFERENCE, lw=1.2, ls=":")
    ax.set(yticks=places, yticklabels=channels, xlabel="size of the channel over the mean size")
    ax.invert_yaxis()
    ax.margins(x=0.12)
    return ax


def plot_heard(weights: ArrayLike, others: Sequence[str], top: float, ax: Axes) -> Axes:
    """Draw a token's attention weights for a square of patches and, in a column beside it, for other tokens.

    ``weights`` are those of the patches, then of ``others``, by name; the darkest is ``top``. The number at the bottom
    is the sum over the patches.
    """
    weights = np.asarray(weights, float)
    patches, rest = np.split(weights, [max(len(weights) - len(others), 0)])
    side = round(len(patches) ** 0.5)
    scale: dict[str, Any] = {"vmin": 0, "vmax": top, "cmap": "Blues", "aspect": "equal"}
    ax.imshow(patches.reshape(side, side), extent=(0, side, side, 0), **scale)
    high = min(side / max(len(others), 1), 1.0)
    for place, (name, weight) in enumerate(zip(others, rest, strict=True)):
        ax.imshow([[weight]], extent=(side + 0.4, side + 1.4, (place + 1) * high, place * high), **scale)
        ax.text(side + 0.9, (place + 0.5) * high, name, color=text_color(weight, top), **CELL)
    ax.text(side / 2, side + 0.2, f"patches {patches.sum():.0%}", ha="center", va="top")
    ax.set(xlim=(0, side + 1.5), ylim=(side + 0.9, 0), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    return ax


def text_color(weight: float, top: float) -> str:
    """Return the text colour that can be read on the shade of ``weight``; the darkest shade is ``top``."""
    return words_on(colormaps["Blues"](weight / top))


def plot_costs(tokens: ArrayLike, maps: ArrayLike, tables: ArrayLike, crossing: float, ax: Axes) -> Axes:
    """Draw the cost of a block's linear maps and of its attention over the number of tokens, and where they cross."""
    for name, cost, color, dash, side in (("maps: 16 T C²", maps, B, "-", -1), ("tables: 4 T² C", tables, A, "--", 1)):
        ax.loglog(tokens, cost, color=color, ls=dash)
        end = (np.asarray(tokens, float)[-1], np.asarray(cost, float)[-1])
        ax.annotate(
            name,
            end,
            (0, 4 if side > 0 else -22),
            textcoords="offset points",
            color=color,
            weight="bold",
            ha="right",
            va="bottom" if side > 0 else "top",
        )
    ax.axvline(crossing, color=REFERENCE, ls=":", lw=1.5)
    ax.text(1.06 * crossing, 0.04, f"T = {crossing:g}", transform=ax.get_xaxis_transform(), color=REFERENCE)
    ax.margins(y=0.12)
    ax.set(xlabel="tokens T", ylabel="operations")
    return ax

"""Attention: rows of inked digits, one head at work on them, and maps of its weights."""

from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from residual_course.plots.style import DROPPED, PALE, REFERENCE

INKS = np.array([[0.78, 0.06, 0.13], [0.12, 0.33, 0.86], [0.0, 0.48, 0.2], [0.15, 0.15, 0.15]])
LETTERS = "RBGK"  # red, blue, green, black
RING = "#E8590C"  # seen on white and on black


def colored(token: ArrayLike) -> np.ndarray:
    """Return the picture of a token, 64 pixels and one of four inks, as (8, 8, 3) on white."""
    token = np.asarray(token, float)
    pixels = token[:64].reshape(8, 8, 1)
    return np.clip(1 - pixels * (1 - INKS[token[64:].argmax()]), 0, 1)


def plot_row(tokens: ArrayLike, answers: ArrayLike, ax: Axes, arrow: tuple[int, int] | None = None) -> Axes:
    """Draw a row of digits with the letters of their inks, and below the answers to a question, a dash for none.

    ``arrow`` leads from the picture that asks to the one that has the answer.
    """
    for at, (token, answer) in enumerate(zip(np.asarray(tokens, float), np.asarray(answers), strict=True)):
        ax.imshow(colored(token), extent=(at + 0.06, at + 0.94, 0, 1), interpolation="nearest")
        own = int(token[64:].argmax())
        ax.text(at + 0.5, -0.3, LETTERS[own], color=INKS[own], weight="bold", ha="center", va="center")
        said, color = (LETTERS[answer], INKS[answer]) if answer >= 0 else ("–", DROPPED)
        ax.text(at + 0.5, -0.9, said, color=color, weight="bold", ha="center", va="center")
    for height, words in ((0.5, "picture"), (-0.3, "ink"), (-0.9, "answer")):
        ax.text(-0.15, height, words, ha="right", va="center")
    if arrow:
        style = {"arrowstyle": "->", "color": REFERENCE, "lw": 1.4, "connectionstyle": "arc3,rad=0.35"}
        ax.annotate("", (arrow[1] + 0.5, 1.05), (arrow[0] + 0.5, 1.05), arrowprops=style)
    ax.set(xlim=(-1.9, len(np.asarray(tokens))), ylim=(-1.2, 2.1), aspect="equal")
    ax.set_axis_off()
    return ax


def plot_one_head(
    tokens: ArrayLike,
    asks: int,
    query: ArrayLike,
    keys: ArrayLike,
    scores: ArrayLike,
    weights: ArrayLike,
    mixture: ArrayLike,
    ax: Axes,
) -> Axes:
    """Draw what one head computes for one picture: a column for each picture, and the mixture of the inks beside them.

    ``asks`` is the picture that asks; ``keys`` is (pictures, features), a score of -inf is masked.
    """
    tokens, scores, mixture = (np.asarray(part, float) for part in (tokens, scores, mixture))
    count, given = len(tokens), np.asarray(weights, float)
    for at, (token, key, score, weight) in enumerate(zip(tokens, np.asarray(keys), scores, given, strict=True)):
        ax.imshow(colored(token), extent=(at + 0.08, at + 0.92, 0, 0.84), interpolation="nearest")
        told = f"{score:.1f}".replace("-", "−") if np.isfinite(score) else "−∞"
        for height, words in ((-0.85, _stacked(key)), (-2.15, told), (-4.15, f"{weight:.2f}".lstrip("0"))):
            ax.text(at + 0.5, height, words, ha="center", va="center", color=REFERENCE if at <= asks else DROPPED)
        ax.bar(at + 0.5, 0.9 * weight, 0.6, bottom=-3.8, color=REFERENCE)
        own = int(token[64:].argmax())
        ax.text(at + 0.5, -5.05, LETTERS[own], color=INKS[own], weight="bold", ha="center", va="center")
    ax.plot(np.array([0, 1, 1, 0, 0]) + asks, [-0.06, -0.06, 0.9, 0.9, -0.06], color=RING, lw=1.6)
    ax.text(asks + 0.5, 1.3, f"asks, q = ({', '.join(f'{part:g}' for part in np.asarray(query))})", ha="center")
    shapes = (
        f"h  ({count}, 32)",
        f"k  ({count}, {np.shape(keys)[1]})",
        f"q·k / √d  ({count})",
        f"weights  ({count})",
        f"v, inks  ({count}, 4)",
    )
    for height, words in zip((0.42, -0.85, -2.15, -3.6, -5.05), shapes, strict=True):
        ax.text(-0.25, height, words, ha="right", va="center")
    for top, bottom in ((0.1, -0.5), (-1.2, -1.8), (-2.5, -3.2)):
        ax.annotate("", (-1.2, bottom), (-1.2, top), arrowprops={"arrowstyle": "->", "color": REFERENCE})
    _plot_mixture(mixture, count + 1.0, ax)
    ax.set(xlim=(-3.7, count + 3.5), ylim=(-5.5, 1.9), aspect="equal")
    ax.set_axis_off()
    return ax


def _stacked(vector: ArrayLike) -> str:
    """Return the numbers of a vector, one below the other."""
    return "\n".join(f"{part:g}".replace("-", "−") for part in np.asarray(vector))


def _plot_mixture(mixture: np.ndarray, left: float, ax: Axes) -> None:
    """Draw the share of each ink as a bar to the right of ``left``, and which one the MLP is to name."""
    arrow = {"arrowstyle": "->", "color": REFERENCE}
    ax.annotate("", (left - 0.1, -3.6), (left - 0.9, -3.6), arrowprops=arrow)
    ax.text(left + 1.1, -1.45, "weights @ v\nmixture  (4)", ha="center", va="center")
    for at, share in enumerate(mixture):
        height = -2.35 - 0.6 * at
        ax.text(left + 0.2, height, LETTERS[at], color=INKS[at], weight="bold", va="center", ha="center")
        ax.barh(height, 1.2 * share, 0.4, left=left + 0.5, color=INKS[at])
        ax.text(left + 0.65 + 1.2 * share, height, f"{share:.2f}".lstrip("0"), va="center")
    ax.annotate("", (left + 1.1, 0.1), (left + 1.1, -0.8), arrowprops=arrow)
    ax.text(left + 1.1, 0.55, f"MLP: {LETTERS[int(mixture.argmax())]}", ha="center", va="center", weight="bold")


def plot_attention_map(
    weights: ArrayLike, tokens: ArrayLike, ax: Axes, ringed: Iterable[int] = (), digits: Iterable[int] = ()
) -> Axes:
    """Draw one head's weights over a row: the picture of each row gives its weights to the pictures of the columns.

    ``ringed`` names for each row the column to ring, -1 for none; ``digits`` are the numerals beside the pictures.
    """
    weights, tokens = np.asarray(weights, float), np.asarray(tokens, float)
    count = len(tokens)
    shown = np.ma.masked_array(weights, np.triu(np.ones((count, count)), 1) > 0)
    ax.imshow(shown, cmap="Greys", vmin=0, vmax=1, extent=(0, count, count, 0), interpolation="nearest")
    for i, token in enumerate(tokens):
        ax.imshow(colored(token), extent=(-1.1, -0.15, i + 0.97, i + 0.03), interpolation="nearest")
        ax.imshow(colored(token), extent=(i + 0.03, i + 0.97, -0.15, -1.1), interpolation="nearest")
        ax.plot([0, i + 1, i + 1], [i + 1, i + 1, i], color=PALE, lw=0.6)
    for i, j in enumerate(ringed):
        if j >= 0:
            angle = np.linspace(0, 2 * np.pi, 41)
            ax.plot(j + 0.5 + 0.4 * np.cos(angle), i + 0.5 + 0.4 * np.sin(angle), color=RING, lw=1.8)
    named = list(digits)
    for i, digit in enumerate(named):
        for x, y in ((-1.55, i + 0.5), (i + 0.5, -1.55)):
            ax.text(x, y, str(digit), ha="center", va="center")
    edge = -1.9 if named else -1.2
    ax.set(xlim=(edge, count + 0.05), ylim=(count + 0.05, edge), aspect="equal")
    ax.set_axis_off()
    return ax

"""A trained network's attention over a row of digits of the learner's choice, both heads side by side."""

from collections.abc import Callable

import ipywidgets as widgets
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from residual_course.explorers.explorer import Explorer, choice_buttons
from residual_course.explorers.states import States
from residual_course.plots.attention import colored, plot_attention_map
from residual_course.plots.style import A
from residual_edu.errors import InvalidInput

LENGTH = 12
ROWS = ["798979897989", "789078907890", "111222111222", "333343333333", "246802468024"]

# called with the digits of a row, the number of a handwriting, and whether the network is trained; returns the row's
# tokens, (LENGTH, 68), and the weights of two heads, (2, LENGTH, LENGTH)
Attend = Callable[[list[int], int, bool], tuple[ArrayLike, ArrayLike]]


def digits_of(text: str) -> list[int]:
    """Return the digits of a row.

    Raises:
        InvalidInput: unless they are twelve.
    """
    found = [int(sign) for sign in text if sign in "0123456789"]
    if len(found) != LENGTH:
        raise InvalidInput(f"a row has {LENGTH} digits, got {len(found)}")
    return found


class MapPicture:
    """Two maps over one row; ``draw`` moves the artists listed in ``moving``."""

    def __init__(self, figure: Figure, attend: Attend) -> None:
        self.attend = attend
        tokens, weights = attend(digits_of(ROWS[0]), 0, True)
        self.axes: list[Axes] = list(figure.subplots(1, 2))
        self.frames = []
        for head, (ax, shares) in enumerate(zip(self.axes, np.asarray(weights, float), strict=True), 1):
            plot_attention_map(shares, tokens, ax, digits=digits_of(ROWS[0])).set_title(
                f"head {head}", weight="normal", loc="center"
            )
            self.frames.append(ax.add_patch(Rectangle((0, 0), LENGTH, 1, fill=False, edgecolor=A, lw=1.8)))
        images = [image for ax in self.axes for image in ax.images]
        lines = [line for ax in self.axes for line in ax.lines]
        texts = [text for ax in self.axes for text in ax.texts]
        self.moving: list[Artist] = [*images, *lines, *texts, *self.frames]

    def draw(self, row: str, handwriting: int, position: int, trained: bool) -> str:
        """Show the maps of a row, and return what the picture at ``position``, counted from 1, attends to."""
        digits = digits_of(row)
        tokens, weights = (np.asarray(part, float) for part in self.attend(digits, handwriting, trained))
        later = np.triu(np.ones((LENGTH, LENGTH)), 1) > 0
        for ax, frame, shares in zip(self.axes, self.frames, weights, strict=True):
            table, *pictures = ax.images
            table.set_data(np.ma.masked_array(shares, later))
            for i, token in enumerate(tokens):
                for picture in pictures[2 * i : 2 * i + 2]:
                    picture.set_data(colored(token))
                for numeral in ax.texts[2 * i : 2 * i + 2]:
                    numeral.set_text(str(digits[i]))
            frame.set(xy=(0, position - 1), width=position)
        at = position - 1
        most = [f"head {head} gives {largest(shares[at], digits)}" for head, shares in enumerate(weights, 1)]
        when = "trained" if trained else "untrained"
        return f"Position {position}, a {digits[at]}, {when}: {'; '.join(most)}."


def largest(weights: np.ndarray, digits: list[int]) -> str:
    """Return the two positions with the largest weights, in words."""
    order = np.argsort(-weights, kind="stable")[:2]
    return ", ".join(f"{weights[j]:.2f} to position {j + 1}, a {digits[j]}" for j in order if weights[j] > 0)


def explore_map(attend: Attend) -> Explorer:
    """Return an explorer of the attention of two heads over a row that the learner types.

    Args:
        attend: called with twelve digits, the number of a handwriting and whether the network is trained; returns the
            row's tokens, (12, 68), and the weights of both heads, (2, 12, 12).
    """
    picture = MapPicture(figure := Figure(figsize=(6, 3.3)), attend)
    controls = {
        "row": widgets.Combobox(value=ROWS[0], options=ROWS, continuous_update=False, description="twelve digits"),
        "handwriting": widgets.IntSlider(0, 0, 9, description="handwriting, inks"),
        "position": widgets.IntSlider(9, 1, LENGTH),
        "trained": choice_buttons([("before", False), ("after", True)], "training"),
    }
    controls["trained"].value = True
    alt = (
        "Two maps of attention over the row 7 9 8 9 7 9 8 9 7 9 8 9: head 1 mostly on the digit one larger, where "
        "there is one, head 2 mostly on the picture just before."
    )
    states: States = {"row": ROWS, "position": [5, 9, 12], "trained": [False, True]}
    return Explorer(figure, picture.draw, controls, alt=alt, animated=picture.moving, states=states)

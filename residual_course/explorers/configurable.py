"""A text that a language model writes anew at each move of a slider, and what its words are like."""

import re
import textwrap
from collections.abc import Callable, Collection

import ipywidgets as widgets
from matplotlib.artist import Artist
from matplotlib.figure import Figure

from residual_course.explorers.explorer import Explorer
from residual_course.explorers.keep import Marks
from residual_course.explorers.states import States
from residual_course.plots.style import REFERENCE, A, B

Write = Callable[[float, float, int], str]  # of a temperature, a top-p and a seed
WORDS = re.compile("[A-Za-z]+")
COLUMNS, LINES = 58, 6


class WritingPicture:
    """The text, and below it two shares over the temperature; ``draw`` moves the artists listed in ``moving``."""

    def __init__(self, figure: Figure, write: Write, known: Collection[str]) -> None:
        self.write, self.known, self.now = write, set(known), (0.0, 0.0, 0.0)
        above, below = figure.subplots(2, 1, height_ratios=[1, 1.15])
        above.axis("off")
        above.set(xlim=(0, 1), ylim=(LINES, 0))
        self.lines = [above.text(0, row + 0.5, "", family="monospace", size=11, va="center") for row in range(LINES)]
        (self.real,) = below.plot([], [], "o", color=B, ms=6)
        (self.different,) = below.plot([], [], "s", color=A, ms=6, fillstyle="none", mew=1.5)
        (self.here,) = below.plot([], [], color=REFERENCE, lw=0.8, ls=":")
        below.set(xlim=(-0.05, 2.05), ylim=(-0.03, 1.08), xlabel="temperature", ylabel="share of the words")
        below.text(2.02, 1.0, "in the text", color=B, weight="bold", ha="right", va="top")
        below.text(2.02, 0.1, "different ones", color=A, weight="bold", ha="right", va="bottom")
        self.moving: list[Artist] = [*self.lines, self.here, self.real, self.different]

    def draw(self, temperature: float, top_p: float, seed: int) -> str:
        """Show a new text, and return what its words are like."""
        text = self.write(temperature, top_p, seed)
        rows = textwrap.wrap(" ".join(text.split()), COLUMNS)[:LINES]
        for line, row in zip(self.lines, rows + [""] * LINES, strict=False):
            line.set_text(row.replace("$", r"\$"))
        real, different = shares(text, self.known)
        self.here.set_data([temperature, temperature], [0, 1])
        self.now = temperature, real, different
        return (
            f"Temperature {temperature:.1f}, top-p {top_p:.2f}: {real:.0%} of the words stand in the text, and "
            f"{different:.0%} of the words are different ones."
        )

    def keep(self) -> Marks:
        """Return the dots of the text that is shown."""
        temperature, *found = self.now
        return {line: ([temperature], [share]) for line, share in zip((self.real, self.different), found, strict=True)}


def shares(text: str, known: Collection[str]) -> tuple[float, float]:
    """Return the share of the words of ``text`` that are ``known``, and that of words which differ; the last is cut."""
    words = WORDS.findall(text)[:-1]
    count = max(1, len(words))
    return sum(word in known for word in words) / count, len(set(words)) / count


def explore_writing(write: Write, known: Collection[str]) -> Explorer:
    """Return an explorer of a text that is written anew at each move.

    Args:
        write: called with a temperature, a top-p and a seed; returns a text.
        known: the words that are real.
    """
    picture = WritingPicture(figure := Figure(figsize=(6, 4.4)), write, known)
    controls = {
        "temperature": widgets.FloatSlider(0.5, min=0.0, max=2.0, step=0.1),
        "top_p": widgets.FloatSlider(1.0, min=0.1, max=1.0, step=0.05, description="top-p"),
        "seed": widgets.IntSlider(0, 0, 20),
    }
    alt = (
        "A text that the model wrote at temperature 0.5, in six lines, and below it a dot for the share of its words "
        "that stand in the training text, near 1, and one for the share of words that differ."
    )
    states: States = {"temperature": [0.0, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0], "top_p": [0.9, 1.0], "seed": [0, 1]}
    return Explorer(figure, picture.draw, controls, alt=alt, animated=picture.moving, keep=picture.keep, states=states)

"""Finished trainings of selective copying: switch the mixer, the taps and the question tokens, and fill a table."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from residual_course.explorers.explorer import Explorer, choice_buttons
from residual_course.explorers.keep import Marks
from residual_course.explorers.states import States
from residual_course.plots.selective_scan import plot_switches

Choice = tuple[str, str, str, int]  # mixer, taps, question tokens, positions
AS_BUILT = {
    "Attention": "Attention, 1 tap, one ?",
    "CKConv": "CKConv, 1 tap, one ?",
    "Hyena": "Hyena, 3 taps, one ?",
    "Mamba": "Mamba, small dt, 3 taps, one ?",
}
"""The run of each mixer as its authors build it: what the first figure of lesson 08c shows, without saying how."""
WIDE = 0.14  # between the marks of two mixers in one column


class SwitchPicture:
    """A table for each of two lengths, with marks for every setting that was tried.

    ``draw`` moves the artists listed in ``moving``, and nothing else changes.
    """

    def __init__(self, figure: Figure, scores: Mapping[Choice, Sequence[float]]) -> None:
        self.scores = scores
        self.mixers, self.taps, self.asks, self.lengths = (
            list(dict.fromkeys(part)) for part in zip(*scores, strict=True)
        )
        columns = [f"{taps}\n{asks}" for asks in self.asks for taps in self.taps]
        panels = figure.subplots(1, len(self.lengths), sharey=True)
        self.lines = {}
        for ax, length in zip(panels, self.lengths, strict=True):
            self.lines[length] = plot_switches(self.mixers, columns, ax)
            ax.set_title(f"{length} positions", weight="normal")
        panels[-1].set_ylabel("")
        handles = list(self.lines[self.lengths[0]].values())
        figure.legend(handles=handles, loc="outside lower center", ncols=3, handletextpad=0.2)
        self.title = figure.suptitle(" ", x=0.01, ha="left", weight="bold")
        self.moving = [*(line for lines in self.lines.values() for line in lines.values()), self.title]
        self.tried: Marks = {}

    def draw(self, mixer: str, taps: str, asks: str) -> str:
        """Mark a setting in both tables, and return the reading."""
        column = self.asks.index(asks) * len(self.taps) + self.taps.index(taps)
        at = self.mixers.index(mixer)
        across = column + WIDE * (at - (len(self.mixers) - 1) / 2)
        found = {length: self.scores[mixer, taps, asks, length] for length in self.lengths}
        self.tried = {self.lines[length][mixer]: ([across] * len(row), row) for length, row in found.items()}
        self.title.set_text(f"{mixer}: {taps}, {asks}")
        told = "; ".join(f"{length} positions {' '.join(f'{s:.2f}' for s in row)}" for length, row in found.items())
        return f"{mixer}, {taps}, {asks}: right answers with three seeds, {told}."


def explore_switches(scores: Mapping[Choice, Sequence[float]]) -> Explorer:
    """Return an explorer of finished trainings.

    Args:
        scores: for each mixer, taps, question tokens and number of positions, what is right with each seed.
    """
    picture = SwitchPicture(figure := Figure(figsize=(6, 4.2)), scores)
    mixers, taps, asks = picture.mixers, picture.taps, picture.asks
    controls = {
        "mixer": choice_buttons(mixers),
        "taps": choice_buttons(taps, "convolution"),
        "asks": choice_buttons(asks, "questions"),
    }
    first, last = picture.lengths[0], picture.lengths[-1]
    alt = (
        f"Two tables of right answers, for {first} positions and for {last}, with a column for each choice of taps and "
        f"question tokens. Only the marks of {mixers[0]}, {taps[0]}, {asks[0]} are there: each setting adds its own."
    )
    states: States = {"mixer": mixers, "taps": taps, "asks": asks}
    return Explorer(
        figure, picture.draw, controls, alt=alt, animated=picture.moving, keep=lambda: picture.tried, states=states
    )

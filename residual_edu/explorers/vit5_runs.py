"""Finished trainings of ViT-5: choose LayerScale's initial value, a drop rate and a depth."""

from collections.abc import Mapping

import ipywidgets as widgets
import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from residual_edu.explorers.explorer import Explorer, choice_buttons
from residual_edu.explorers.states import States
from residual_edu.plotting.style import DROPPED, GATE

Choice = tuple[float, float, int]  # where LayerScale starts (0: left out), drop rate, number of blocks


def gate_name(start: float) -> str:
    """Return the label of an initial value of LayerScale."""
    return f"{start:g}" if start else "left out"


class RunsPicture:
    """One training among the others: its loss at each step, and its accuracy beside theirs."""

    def __init__(self, figure: Figure, losses: Mapping[Choice, ArrayLike], scores: Mapping[Choice, float]) -> None:
        self.losses = {choice: np.asarray(run, float) for choice, run in losses.items()}
        self.scores = dict(scores)
        starts, self.depths = sorted({start for start, _, _ in scores}), sorted({depth for _, _, depth in scores})
        steps = len(next(iter(self.losses.values())))
        left, right = figure.subplots(1, 2, width_ratios=[1.3, 1])
        left.set(xlim=(0, steps), ylim=(0, 3), xlabel="steps taken", ylabel="loss")
        left.text(0.98, 0.98, "grey: other choices", transform=left.transAxes, ha="right", va="top", color=DROPPED)
        right.set(ylim=(0, 1), xlabel="blocks", ylabel="test accuracy", xticks=range(len(self.depths)))
        right.set_xticklabels([str(depth) for depth in self.depths])
        right.set_xlim(-0.3, len(self.depths) + 0.5)
        siblings = sum(choice[2] == self.depths[0] for choice in scores) - 1
        self.others = [left.plot([], [], color=DROPPED, lw=0.8)[0] for _ in range(siblings)]
        (self.chosen,) = left.plot([], [], color=GATE)
        self.lines = {start: right.plot(range(len(self.depths)), [0] * len(self.depths), ".-")[0] for start in starts}
        self.names = {start: right.text(len(self.depths) - 0.8, 0, gate_name(start)) for start in starts}
        (self.here,) = right.plot([], [], "o", color=GATE, ms=11, mec="white")
        self.title = figure.suptitle(" ", x=0.01, ha="left", weight="bold")
        self.moving: list[Artist] = [*self.others, self.chosen, *self.lines.values(), *self.names.values(), self.here]
        self.moving.append(self.title)

    def _name_lines(self) -> None:
        """Write each initial value at the end of its line; labels that would overlap are moved apart."""
        low = 0.0
        for gate, line in sorted(self.lines.items(), key=lambda item: float(item[1].get_ydata()[-1])):
            low = max(low + 0.07, float(line.get_ydata()[-1]))
            self.names[gate].set(y=low, color=line.get_color())

    def draw(self, start: float, rate: float, depth: int) -> str:
        """Move the curves, and return the reading."""
        siblings = [run for key, run in self.losses.items() if key[2] == depth and key != (start, rate, depth)]
        for line, run in zip(self.others, siblings, strict=True):
            line.set_data(range(len(run)), run)
        run, score = self.losses[start, rate, depth], self.scores[start, rate, depth]
        self.chosen.set_data(range(len(run)), run)
        for gate, line in self.lines.items():
            line.set_ydata([self.scores[gate, rate, blocks] for blocks in self.depths])
            line.set(color=GATE if gate == start else DROPPED, lw=2 if gate == start else 0.8)
        self._name_lines()
        self.here.set_data([self.depths.index(depth)], [score])
        self.title.set_text(f"LayerScale {gate_name(start)}, drop rate {rate:g}, {blocks_of(depth)}")
        return (
            f"LayerScale {gate_name(start)}, drop rate {rate:g}, {blocks_of(depth)}: the last ten losses are "
            f"{run[-10:].mean():.2f} on average, and {score:.0%} of the test digits are right."
        )


def blocks_of(depth: int) -> str:
    """Return the label of a number of blocks."""
    return f"{depth} block" + "s" * (depth != 1)


def explore_runs(losses: Mapping[Choice, ArrayLike], scores: Mapping[Choice, float]) -> Explorer:
    """Return an explorer of finished trainings.

    Args:
        losses: for each start of LayerScale (0 where it is left out), drop rate and depth, the loss before each step.
        scores: for the same, the accuracy on the test digits at the end.
    """
    figure = Figure(figsize=(6, 3.6))
    picture = RunsPicture(figure, losses, scores)
    starts, rates = sorted({start for start, _, _ in scores}), sorted({rate for _, rate, _ in scores})
    controls = {
        "start": widgets.SelectionSlider(options=[(gate_name(s), s) for s in starts], description="LayerScale"),
        "rate": choice_buttons([(f"{rate:g}", rate) for rate in rates], "drop rate"),
        "depth": widgets.SelectionSlider(
            options=[(str(depth), depth) for depth in picture.depths], description="blocks"
        ),
    }
    alt = (
        f"Left, the loss of {blocks_of(picture.depths[0])} without LayerScale, falling, among grey curves of the other "
        "choices. Right, test accuracy against depth: without LayerScale nine blocks do worst."
    )
    states: States = {"start": starts, "rate": rates, "depth": picture.depths}
    return Explorer(figure, picture.draw, controls, alt=alt, animated=picture.moving, states=states)

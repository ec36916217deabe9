"""Finished trainings of 48 blocks: choose wiring, gates and rate, and compare with no gates."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from residual_course.explorers.explorer import Explorer, choice_buttons
from residual_course.explorers.keep import Marks
from residual_course.explorers.states import States
from residual_course.plots.style import DROPPED, GATE, REFERENCE

Choice = tuple[str, str, float]  # wiring, gates, learning rate
NONE = "none"  # the name of the networks without gates
SHAPES = "osD^vP"  # a mark for each kind of gates


class RatesPicture:
    """The loss after training over the rate, a panel for each wiring: a line without gates, a mark for what was tried.

    ``draw`` moves the artists listed in ``moving``, and nothing else changes.
    """

    def __init__(self, figure: Figure, losses: Mapping[Choice, Sequence[float]]) -> None:
        self.losses = losses
        wirings, gates, rates = (list(dict.fromkeys(part)) for part in zip(*losses, strict=True))
        self.gates = [kind for kind in gates if kind != NONE]
        self.rates, self.marks, self.rings = rates, dict[tuple[str, str], Line2D](), dict[str, Line2D]()
        for place, ax in zip(wirings, figure.subplots(1, len(wirings), sharey=True), strict=True):
            self.panel(place, ax)
        figure.axes[0].set_ylabel("loss after 80 steps")
        self.title = figure.suptitle(" ", x=0.01, ha="left", weight="bold")
        self.moving = [*self.marks.values(), *self.rings.values(), self.title]
        self.tried: Marks = {}

    def panel(self, place: str, ax: Axes) -> None:
        """Draw one wiring without gates, and an empty line for the marks of each kind of gates."""
        without = [np.mean(self.losses[place, NONE, rate]) for rate in self.rates]
        ax.plot(self.rates, without, "--", color=DROPPED, lw=1.5)
        end = self.rates[-1], without[-1]
        ax.annotate("no gate", end, (0, 6), textcoords="offset points", color=DROPPED, ha="right")
        for kind, shape in zip(self.gates, SHAPES, strict=False):
            (self.marks[place, kind],) = ax.plot([], [], shape, color=GATE, ms=8, mfc="white", label=kind)
        (self.rings[place],) = ax.plot([], [], "o", color=REFERENCE, ms=15, fillstyle="none")
        ax.set(xscale="log", yscale="log", xlabel="learning rate", ylim=(0.03, 4))
        ax.set(xlim=(self.rates[0] / 1.6, self.rates[-1] * 1.6))
        ax.set_xticks(self.rates, [f"{rate:g}" for rate in self.rates])
        ax.set_yticks([0.1, 0.3, 1, 3], ["0.1", "0.3", "1", "3"])
        ax.minorticks_off()
        ax.set_title(place, weight="normal")

    def draw(self, place: str, gates: str, rate: float) -> str:
        """Mark a setting, and return the reading."""
        found = self.losses[place, gates, rate]
        self.tried = {self.marks[place, gates]: ([rate], [float(np.mean(found))])}
        for name, ring in self.rings.items():
            ring.set_data(([rate], [float(np.mean(found))]) if name == place else ([], []))
        three = " ".join(f"{loss:.2f}" for loss in found)
        self.title.set_text(f"{place}, gates {gates}, rate {rate:g}: {three}")
        without = np.mean(self.losses[place, NONE, rate])
        return f"{place}, gates {gates}, rate {rate:g}: loss with three seeds {three}; without gates {without:.2f}."


def explore_gates(losses: Mapping[Choice, Sequence[float]]) -> Explorer:
    """Return an explorer of finished trainings.

    Args:
        losses: for each wiring, kind of gates ("none" among them) and learning rate, the loss with each seed.
    """
    picture = RatesPicture(figure := Figure(figsize=(6, 4.2)), losses)
    handles = [Line2D([], [], ls="", marker=s, color=GATE, mfc="white") for s in SHAPES[: len(picture.gates)]]
    figure.legend(handles, picture.gates, loc="outside lower center", ncols=3, title="gates")
    places, rates = list(dict.fromkeys(key[0] for key in losses)), picture.rates
    controls = {
        "place": choice_buttons(places, "wiring"),
        "gates": choice_buttons(picture.gates, "gates"),
        "rate": choice_buttons([(f"{rate:g}", rate) for rate in rates], "rate"),
    }
    alt = (
        f"Two panels, {places[0]} and {places[-1]}: the loss after 80 steps over the rate. A dashed line shows "
        "the networks without gates; each setting that is tried leaves a mark beside it."
    )
    states: States = {"place": places, "gates": picture.gates, "rate": rates}
    return Explorer(
        figure, picture.draw, controls, alt=alt, animated=picture.moving, keep=lambda: picture.tried, states=states
    )

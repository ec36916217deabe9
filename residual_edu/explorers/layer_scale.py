"""Choose LayerScale's initial value and an optimiser, and step through finished trainings: how do the gates grow?"""

from collections.abc import Mapping

import ipywidgets as widgets
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from residual_edu.explorers.explorer import Explorer, choice_buttons
from residual_edu.explorers.keep import Marks
from residual_edu.explorers.states import States
from residual_edu.plotting.style import DROPPED, GATE, REFERENCE

Runs = Mapping[tuple[str, float], ArrayLike]  # by optimiser and start


class GatesPicture:
    """One training among the others: gate sizes over the steps, of each block at one step, and the last losses.

    ``draw`` moves the artists listed in ``moving``; nothing else changes.
    """

    def __init__(self, figure: Figure, gates: Runs, losses: Runs) -> None:
        self.gates = {key: np.asarray(run, float) for key, run in gates.items()}
        self.losses = {key: np.asarray(run, float) for key, run in losses.items()}
        self.optimisers = list(dict.fromkeys(name for name, _ in gates))
        steps, blocks = next(iter(self.gates.values())).shape
        axes: dict[str, Axes] = figure.subplot_mosaic([["gates", "blocks"], ["gates", "losses"]], width_ratios=[1.3, 1])
        left, right = axes["gates"], axes["blocks"]
        left.set(yscale="log", ylim=(5e-7, 3), xlabel="steps taken", ylabel="mean size of γ")
        left.set_xscale("symlog", linthresh=1, linscale=0.6)
        left.set_xticks([0, 1, 10, 100], ["0", "1", "10", "100"])
        left.set_xlim(-0.1, 1.3 * steps)
        right.set(xlim=(0.3, blocks + 0.7), xticks=range(1, blocks + 1), xlabel="block")
        right.set(ylim=(0.5, 1.5), yticks=[0.5, 1, 1.5], ylabel="against the mean")
        right.axhline(1, color=DROPPED, lw=1)
        self.others = [left.plot([], [], color=DROPPED, lw=1)[0] for _ in range(len(self.gates) - 1)]
        (self.chosen,) = left.plot([], [], color=GATE)
        (self.here,) = left.plot([], [], "o", color=GATE, ms=10, mec="white")
        self.pale = {
            name: right.plot([], [], color=DROPPED, lw=1, ls=ls)[0]
            for name, ls in zip(self.optimisers, "-:", strict=False)
        }
        (self.blocks,) = right.plot([], [], "o", color=GATE, ms=7)
        self.dots, self.loss = plot_last_losses(axes["losses"], self.losses)
        self.title = figure.suptitle(" ", x=0.01, ha="left", weight="bold")
        self.moving: list[Artist] = [*self.pale.values(), *self.others, self.chosen, self.here, self.blocks]
        self.moving += [*self.dots.values(), self.loss, self.title]
        self.tried: Marks = {}

    def draw(self, start: float, optimiser: str, step: int) -> str:
        """Move the curves and dots, and return the reading."""
        means = {key: run.mean(-1) for key, run in self.gates.items() if key[0] == optimiser}
        chosen, gates = means.pop((optimiser, start)), self.gates[optimiser, start][step]
        rest = [*means.values(), *[[]] * len(self.others)]
        for line, mean in zip(self.others, rest, strict=False):
            line.set_data(range(len(mean)), mean)
        self.chosen.set_data(range(len(chosen)), chosen)
        self.here.set_data([step], [chosen[step]])
        self.blocks.set_data(range(1, len(gates) + 1), gates / chosen[step])
        loss = self.losses[optimiser, start][step]
        self.loss.set_data([start], [loss])
        last = step == len(self.losses[optimiser, start]) - 1
        marks = {self.pale[optimiser]: self.blocks.get_data(), self.dots[optimiser]: self.loss.get_data()}
        self.tried = marks if last else {}
        self.title.set_text(f"{optimiser}, λ = {start:g}, step {step}: loss {loss:.2f}")
        return (
            f"At step {step} of {optimiser} from λ = {start:g} the gates have a mean size of {chosen[step]:.2g}, "
            f"{spread(gates)}; the loss is {loss:.2f}."
        )


def spread(gates: np.ndarray) -> str:
    """Return in which blocks the gates are smallest and largest, where they differ."""
    least, most = f"{gates.min():.2g}", f"{gates.max():.2g}"
    if least == most:
        return f"{most} in every block"
    return f"from {least} in block {gates.argmin() + 1} to {most} in block {gates.argmax() + 1}"


def plot_last_losses(ax: Axes, losses: Mapping[tuple[str, float], np.ndarray]) -> tuple[dict[str, Line2D], Line2D]:
    """Return a line of dots for each optimiser over the starts, and the ring around the present loss."""
    names, markers = list(dict.fromkeys(name for name, _ in losses)), ("o", "^", "s")
    dots = {
        name: ax.plot([], [], marker, color=REFERENCE, ms=6)[0] for name, marker in zip(names, markers, strict=False)
    }
    (here,) = ax.plot([], [], "o", color=GATE, ms=11, fillstyle="none")
    starts = sorted({start for _, start in losses})
    ax.set(xscale="log", xlim=(starts[0] / 4, 4 * starts[-1]), xlabel="λ", ylabel="loss")
    top = 1.1 * max(run.max() for run in losses.values())
    ax.set_ylim(-0.1 * top, top)  # a mark near 0 is not cut by the axis
    ax.set_title(", ".join(f"{dot} {name}" for dot, name in zip("●▲■", names, strict=False)), weight="normal")
    return dots, here


def explore_gates(gates: Runs, losses: Runs) -> Explorer:
    """Return an explorer of finished trainings.

    Args:
        gates: for each optimiser and start, the mean size of gamma, (steps, blocks), before each step.
        losses: for the same, the loss before each step.
    """
    figure = Figure(figsize=(6, 4.4))
    picture = GatesPicture(figure, gates, losses)
    starts = sorted({start for _, start in gates})
    last = min(len(run) for run in picture.losses.values()) - 1
    controls = {
        "start": widgets.SelectionSlider(options=[(f"{s:g}", s) for s in starts], value=starts[0], description="λ"),
        "optimiser": choice_buttons(picture.optimisers),
        "step": widgets.IntSlider(0, 0, last),
    }
    alt = (
        f"Left, the mean size of γ over the steps of {picture.optimisers[0]}, one curve for each start: the small "
        "starts run together. Right, each block's gates against that mean: before the first step all are equal. Below, "
        "the loss."
    )
    states: States = {
        "start": starts,
        "optimiser": picture.optimisers,
        "step": [0, *(s for s in (1, 10, 30) if s < last), last],
    }
    return Explorer(
        figure, picture.draw, controls, alt=alt, animated=picture.moving, keep=lambda: picture.tried, states=states
    )

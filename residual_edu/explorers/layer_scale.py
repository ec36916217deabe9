"""Choose LayerScale's initial value and an optimiser, and step through finished trainings: how do the gates grow?"""

from collections.abc import Mapping

import ipywidgets as widgets
import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from residual_edu.explorers.explorer import Explorer, choice_buttons
from residual_edu.plotting.style import DROPPED, GATE

Runs = Mapping[tuple[str, float], ArrayLike]  # by optimiser and start


class GatesPicture:
    """One training among the others: gate sizes over the steps, and of each block at one step.

    ``draw`` moves the artists listed in ``moving``; nothing else changes.
    """

    def __init__(self, figure: Figure, gates: Runs, losses: Runs) -> None:
        self.gates = {key: np.asarray(run, float) for key, run in gates.items()}
        self.losses = {key: np.asarray(run, float) for key, run in losses.items()}
        steps, blocks = next(iter(self.gates.values())).shape
        left, right = figure.subplots(1, 2, width_ratios=[1.4, 1])
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
        (self.blocks,) = right.plot([], [], "o", color=GATE, ms=8)
        self.title = left.text(0, 1.04, "", transform=left.transAxes, size=12, weight="bold")
        self.moving: list[Artist] = [*self.others, self.chosen, self.here, self.blocks, self.title]

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
        self.title.set_text(f"{optimiser}, λ = {start:g}, step {step}: loss {loss:.2f}")
        return (
            f"At step {step} of {optimiser} from λ = {start:g} the gates have a mean size of {chosen[step]:.2g}, "
            f"from {gates.min():.2g} in block {gates.argmin() + 1} to {gates.max():.2g} in block {gates.argmax() + 1}; "
            f"the loss is {loss:.2f}."
        )


def explore_gates(gates: Runs, losses: Runs) -> Explorer:
    """Return an explorer of finished trainings.

    Args:
        gates: for each optimiser and start, the mean size of gamma, (steps, blocks), before each step.
        losses: for the same, the loss before each step.
    """
    figure = Figure(figsize=(7, 3.6))
    picture = GatesPicture(figure, gates, losses)
    starts = sorted({start for _, start in gates})
    optimisers = list(dict.fromkeys(name for name, _ in gates))
    last = min(len(run) for run in picture.losses.values()) - 1
    controls = {
        "start": widgets.SelectionSlider(options=[(f"{s:g}", s) for s in starts], value=starts[0], description="λ"),
        "optimiser": choice_buttons(optimisers),
        "step": widgets.IntSlider(0, 0, last),
    }
    alt = (
        f"Left, the mean size of γ over the steps of {optimisers[0]}, one curve for each start: the small starts run "
        f"together. Right, each block's gates against that mean: before the first step all are equal."
    )
    return Explorer(figure, picture.draw, controls, alt=alt, animated=picture.moving)

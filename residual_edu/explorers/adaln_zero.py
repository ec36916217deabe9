"""Step through a training run: which weights have a gradient, how large the gates are, what the network draws."""

from collections.abc import Sequence
from typing import NamedTuple

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from residual_edu.errors import check_same_length
from residual_edu.explorers.explorer import Explorer
from residual_edu.explorers.states import States
from residual_edu.plotting.adaln_zero import mosaic, plot_digits, plot_wake_up
from residual_edu.plotting.style import GATE, REFERENCE


class Pauses(NamedTuple):
    """Measurements at the pauses of a training run; the first axis of each tensor is the pause."""

    steps: Sequence[int]  # taken before each pause
    groups: Sequence[str]  # names of the groups of weights
    gradients: Tensor  # the largest of each group, (pauses, groups)
    gates: Tensor  # mean size in each block of the mixer's gate and the MLP's, (pauses, blocks, 2)
    sheets: Tensor  # images of each class, (pauses, rows, classes, side, side), from -1 to 1


class TrainingPicture:
    """Three views of one pause; ``draw`` moves the artists listed in ``moving``, and nothing else changes."""

    def __init__(self, figure: Figure, pauses: Pauses) -> None:
        self.pauses, count = pauses, len(pauses.groups)
        halves = figure.add_gridspec(2, 1, height_ratios=[1.6, 1])
        upper, lower = figure.add_subfigure(halves[0]), figure.add_subfigure(halves[1])
        wake, gates = upper.subplots(1, 2, width_ratios=[1.8, 1])
        plot_wake_up(pauses.gradients.T.numpy(), pauses.groups, pauses.steps, wake, numbers=False)
        wake.set_title("gradients (0: exactly 0)")
        wake.set_xticks(range(0, len(pauses.steps), 2), [str(step) for step in pauses.steps[::2]])
        self.cover = Rectangle((0, -0.5), 0, count, color="white", zorder=3)
        self.frame = Rectangle((0, -0.5), 1, count, fill=False, edgecolor=REFERENCE, linewidth=1.5, clip_on=False)
        for patch in (self.cover, self.frame):
            wake.add_patch(patch)
        self.bars = gate_bars(gates, pauses.gates)
        columns = [str(label) for label in range(pauses.sheets.shape[2])]
        digits = plot_digits(pauses.sheets[0].numpy(), lower.subplots(), columns=columns)
        self.sheet = digits.images[0]
        self.title = digits.text(0, 1.04, "", transform=digits.transAxes, weight="bold")
        self.moving: list[Artist] = [self.cover, self.frame, *self.bars, self.sheet, self.title]

    def draw(self, step: int) -> str:
        """Show the pause after ``step`` steps, and return the reading."""
        at, gates = list(self.pauses.steps).index(step), self.pauses.gates.numpy()
        self.cover.set(x=at + 0.5, width=len(self.pauses.steps) - at - 1)
        self.frame.set_x(at - 0.5)
        for bar, height in zip(self.bars, gates[at].T.flat, strict=True):
            bar.set_height(height)
        self.sheet.set_data(mosaic(self.pauses.sheets[at].numpy()))
        after = f"after {step} step{'s' * (step != 1)}"
        self.title.set_text(f"what it draws {after}")
        sizes = zip(self.pauses.groups, self.pauses.gradients[at], strict=True)
        live = [name for name, size in sizes if size > 0]
        mixers, mlps = gates[at].mean(0)
        return (
            f"{after.capitalize()} {len(live)} of {len(self.pauses.groups)} groups have a gradient: {'; '.join(live)}. "
            f"The mixers' gates are open by {mixers:.3f} on average, the MLPs' by {mlps:.3f}."
        )


def gate_bars(ax: Axes, gates: Tensor) -> list[Rectangle]:
    """Return a bar of height 0 for each gate: the mixers', block by block, then the MLPs'."""
    _, blocks, branches = gates.shape
    places = np.arange(branches)[:, None] * (blocks + 1) + np.arange(blocks)
    ax.set_xticks(places.mean(1), ["mixers", "MLPs"])
    ax.set(ylim=(0, 1.05 * float(gates.max())), xlabel="block by block")
    ax.set_title("mean |gate|")
    return list(ax.bar(places.ravel(), np.zeros(places.size), color=GATE))


def explore_training(pauses: Pauses) -> Explorer:
    """Return a slider over the pauses of a training run.

    Raises:
        InvalidInput: if the tensors differ in their number of pauses.
    """
    steps = list(pauses.steps)
    check_same_length("pauses", [torch.tensor(steps), pauses.gradients, pauses.gates, pauses.sheets])
    figure = Figure(figsize=(6, 4.6))
    picture = TrainingPicture(figure, pauses)
    controls = {"step": widgets.SelectionSlider(options=steps, value=steps[0], description="steps taken")}
    alt = (
        "Before training: of six groups of weights the last linear map alone has a gradient, every gate is 0, "
        "and what the network draws is the noise that it was given."
    )
    states: States = {"step": steps}
    return Explorer(figure, picture.draw, controls, alt=alt, animated=picture.moving, states=states)

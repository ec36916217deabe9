"""Choose a state's decay, and its step at marked numbers and at noise: does it keep the marked number?"""

from typing import cast

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from numpy.typing import ArrayLike

from residual_course.explorers.explorer import Explorer
from residual_course.explorers.states import States
from residual_course.plots.selective_scan import plot_latch
from residual_course.plots.style import REFERENCE
from residual_edu.mixers import selective_scan


def held(numbers: ArrayLike, marked: ArrayLike, decay: float, step_marked: float, step_noise: float) -> np.ndarray:
    """Return the state after each number: it is multiplied by exp(-decay · step), then step · number is added."""
    x = torch.as_tensor(np.asarray(numbers, float)).view(1, -1, 1, 1)
    steps = torch.as_tensor(np.where(np.asarray(marked, bool), step_marked, step_noise)).view(1, -1, 1)
    one = torch.ones_like(steps)
    return selective_scan(x, steps, torch.tensor([-decay], dtype=x.dtype), one, one).flatten().numpy()


def wanted(numbers: ArrayLike, marked: ArrayLike) -> np.ndarray:
    """Return the last marked number at each position, 0 before the first."""
    numbers, marked = np.asarray(numbers, float), np.asarray(marked, bool)
    last = np.maximum.accumulate(np.where(marked, np.arange(len(numbers)), -1))
    return np.where(last < 0, 0.0, numbers[last])


class LatchPicture:
    """The input, the wanted output, and the state; ``draw`` moves the artists listed in ``moving``."""

    def __init__(self, figure: Figure, numbers: ArrayLike, marked: ArrayLike) -> None:
        self.numbers, self.marked = np.asarray(numbers, float), np.asarray(marked, bool)
        self.goal = wanted(numbers, marked)
        axes = plot_latch(numbers, marked, {"the memory": self.goal}, figure.add_subplot())
        self.curve, self.name = axes.lines[2], cast(Annotation, axes.texts[-1])
        places = np.arange(1, len(self.goal) + 1)
        axes.step(places, self.goal, where="mid", color=REFERENCE, ls=":", lw=1.5, zorder=0)
        axes.set_ylim(-2, 10)
        over = axes.texts[:-1]  # the marked numbers, drawn after the curve
        self.title = axes.text(0, 1.04, "", transform=axes.transAxes, weight="bold")
        self.moving: list[Artist] = [self.curve, *over, self.name, self.title]

    def draw(self, decay: float, step_marked: float, step_noise: float) -> str:
        """Move the state's curve, and return its distance from the last marked number."""
        memory = held(self.numbers, self.marked, decay, step_marked, step_noise)
        self.curve.set_ydata(memory)
        end = float(np.clip(memory[-1], -2, 10))
        self.name.xy = (len(memory) + 0.5, end)
        self.name.set_text("the memory" if end == memory[-1] else "the memory,\noff the chart")
        off = float(np.abs(memory - self.goal).max())
        self.title.set_text(f"The memory is off by {off:.2f} at most")
        kept = np.exp(-decay * np.array([step_marked, step_noise]))
        return (
            f"At a marked number {kept[0]:.0%} of the memory stays and {step_marked:g} times the number is added; at "
            f"noise {kept[1]:.0%} stays and {step_noise:g} times the number is added. At the end it holds "
            f"{memory[-1]:.2f}, where {self.goal[-1]:g} was marked last."
        )


def explore_latch(numbers: ArrayLike, marked: ArrayLike) -> Explorer:
    """Return sliders for A and the two steps, over the state of a scan of ``numbers``, some of them ``marked``."""
    figure = Figure(figsize=(6, 3.6))
    picture = LatchPicture(figure, numbers, marked)
    controls = {
        "decay": widgets.FloatSlider(1.0, min=0, max=8, step=0.5, description="−A"),
        "step_marked": widgets.FloatSlider(0.5, min=0, max=2, step=0.1, description="step, marked"),
        "step_noise": widgets.FloatSlider(0.5, min=0, max=1, step=0.05, description="step, noise"),
    }
    alt = (
        "A memory with equal steps at marked numbers and at noise, beside the dotted line of what it should hold: it "
        "follows every input, and is far from the last marked number."
    )
    states: States = {"decay": [1.0, 3.0, 6.0], "step_marked": [0.5, 0.8, 1.0], "step_noise": [0.0, 0.25, 0.5]}
    return Explorer(figure, picture.draw, controls, alt=alt, animated=picture.moving, states=states)

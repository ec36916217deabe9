"""Move one of four numbers that are normalised, and see its output and the slope of that."""

from collections.abc import Callable
from itertools import chain

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from torch import Tensor

from residual_course.explorers.explorer import Explorer, choice_buttons
from residual_course.explorers.keep import Marks
from residual_course.explorers.states import States
from residual_course.plots.style import BRANCH, DROPPED, GRADIENT, STREAM
from residual_edu.parts import layer_norm, rms_norm

Norm = Callable[[Tensor, float], Tensor]


def tutorial_norm(x: Tensor, eps: float) -> Tensor:
    """Return (x - mean) / (std + eps), with the standard deviation that divides by n - 1."""
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps)


NORMS: dict[str, Norm] = {
    "LayerNorm": lambda x, eps: layer_norm(x, eps=eps),
    "the tutorials' LayerNorm": tutorial_norm,
    "RMSNorm": lambda x, eps: rms_norm(x, eps=eps),
}
REACH = torch.linspace(-3, 3, 601, dtype=torch.float64)  # the values of the first number


def rows(first: Tensor, spread: float) -> Tensor:
    """Return the row (first, -spread, 0, spread) for each number of ``first``: (n,) to (n, 4)."""
    rest = torch.tensor([-spread, 0.0, spread], dtype=first.dtype)
    return torch.cat([first[:, None], rest.expand(len(first), 3)], dim=-1)


def normalise(row: Tensor, eps: float, norm: Norm) -> tuple[Tensor, Tensor]:
    """Return the normalised ``row`` ``(4,)`` and the gradient of its first number with respect to the row."""
    row = row.detach().requires_grad_()
    output = norm(row, eps)
    return output.detach(), torch.autograd.grad(output[0], row)[0]


class NormPicture:
    """Four numbers before and after a norm, beside the curve of the first output against the first input.

    ``bars`` and ``curve`` move the artists listed in ``moving``; nothing else changes.
    """

    def __init__(self, figure: Figure) -> None:
        self.figure = figure
        left, right = figure.subplots(1, 2, width_ratios=[1, 1.15])
        left.set(xlim=(-3, 3), ylim=(-2.4, 2.4), xlabel="first number in", ylabel="first number out")
        left.axhline(0, color=DROPPED, linewidth=0.6)
        left.axvline(0, color=DROPPED, linewidth=0.6)
        (self.pale,) = left.plot([], [], color=DROPPED, linewidth=1)
        (self.line,) = left.plot([], [], color=BRANCH)
        (self.slope,) = left.plot([], [], color=GRADIENT, linewidth=3)
        (self.here,) = left.plot([], [], "o", color=BRANCH, markersize=10, markeredgecolor="white")
        self.text = left.text(-2.85, 2.15, "", color=GRADIENT, weight="bold", va="center")
        right.set(xlim=(0.5, 4.5), ylim=(-3.1, 3.1), xticks=range(1, 5), xlabel="number")
        right.axhline(0, color=DROPPED, linewidth=0.6)
        kinds = {"in": STREAM, "out": BRANCH, "gradient of the first out": GRADIENT}
        places = np.arange(1, 5)[:, None] + [-0.25, 0, 0.25]
        self.groups = [right.bar(places[:, k], 0, 0.22, color=c, label=n) for k, (n, c) in enumerate(kinds.items())]
        figure.legend(handles=self.groups, loc="outside upper right", ncols=3)
        self.moving: list[Artist] = [self.pale, self.line, self.slope, self.here, self.text, *chain(*self.groups)]

    def bars(self, row: np.ndarray, output: np.ndarray, gradient: np.ndarray) -> None:
        """Show one row of four numbers, its output, and the gradient of the first output."""
        for group, heights in zip(self.groups, (row, output, gradient), strict=True):
            for bar, height in zip(group, heights, strict=True):
                bar.set_height(height)
        reach = 1.1 / np.hypot(1, gradient[0])  # a piece of the tangent, always about as long
        self.here.set_data(row[:1], output[:1])
        self.slope.set_data(row[0] + reach * np.array([-1, 1]), output[0] + gradient[0] * reach * np.array([-1, 1]))
        self.text.set_text(f"slope {gradient[0]:.3g}")

    def curve(self, first: np.ndarray, output: np.ndarray) -> None:
        """Show the first output for every first input."""
        self.line.set_data(first, output)

    def tried(self) -> Marks:
        """Return the present curve, which stays as a thin one."""
        return {self.pale: self.line.get_data()}


def explore_layer_norm() -> Explorer:
    """Return an explorer of a row of four numbers: drag the first, the spread of the others, and eps."""
    picture = NormPicture(Figure(figsize=(6, 3.4)))

    def draw(first: float, spread: float, eps: float, norm: str) -> str:
        row = rows(torch.tensor([first], dtype=torch.float64), spread)[0]
        output, gradient = normalise(row, eps, NORMS[norm])
        picture.bars(row.numpy(), output.numpy(), gradient.numpy())
        picture.curve(REACH.numpy(), NORMS[norm](rows(REACH, spread), eps)[:, 0].numpy())
        return f"output: {listed(output)}; gradient of the first output: {listed(gradient)}"

    controls = {
        "first": widgets.FloatSlider(value=1, min=-3, max=3, step=0.05),
        "spread": widgets.FloatSlider(value=0, min=0, max=2, step=0.1),
        "eps": widgets.FloatLogSlider(value=1e-2, min=-5, max=0, step=0.5, readout_format=".2g"),
        "norm": choice_buttons(NORMS),
    }
    alt = (
        "The row 1, 0, 0, 0 goes through LayerNorm. Left, the first output against the first input: a steep step "
        "through 0, flat on both sides. Right, bars of input, output 1.69 and three times -0.56, and a gradient near 0."
    )
    states: States = {"first": [-1.0, 0.0, 0.1, 1.0], "spread": [0.0, 1.0], "eps": [1e-3, 1e-2], "norm": list(NORMS)}
    return Explorer(picture.figure, draw, controls, alt=alt, animated=picture.moving, keep=picture.tried, states=states)


def listed(numbers: Tensor) -> str:
    """Return numbers as text with two decimals, and no negative zero."""
    return ", ".join(f"{round(number, 2) + 0.0:.2f}" for number in numbers.tolist())

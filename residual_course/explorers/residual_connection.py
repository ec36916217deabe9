"""Stack residual connections, and see whether signal and gradient grow, shrink or keep their size."""

from functools import cache

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from residual_course.datasets import digits
from residual_course.explorers.explorer import Explorer
from residual_course.explorers.keep import Marks
from residual_course.explorers.states import States
from residual_course.plots.residual_connection import plot_profile
from residual_course.plots.style import DROPPED, GRADIENT, REFERENCE, STREAM
from residual_edu.parts import layer_norm

DEEPEST, WIDTH, TOKENS = 64, 64, 8
LEAST = 0.02  # where the map has a gate of 0


def sizes(depth: int, gate: float, skip: bool, norm: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the size of signal and gradient at each of the ``depth + 1`` places of a stack of x + g f(norm(x)).

    ``skip`` and ``norm`` switch these two on. The signal is divided by its size at the input, the gradient by its size
    at the output.
    """
    x, first, second, probe = ingredients()
    stream = [x.clone().requires_grad_()]
    for inward, outward in zip(first[:depth], second[:depth], strict=True):
        x = stream[-1]
        branch = gate * (torch.relu((layer_norm(x) if norm else x) @ inward) @ outward)
        stream.append(x + branch if skip else branch)
    gradients = torch.autograd.grad((stream[-1] * probe).sum(), stream)
    signal, gradient = (torch.stack([x.detach().norm() for x in places]).numpy() for places in (stream, gradients))
    return signal / signal[0], gradient / gradient[-1]


@cache
def ingredients() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return normalised digits, the two weights of each f by He's rule, and a gradient of the output.

    Shapes ``(TOKENS, WIDTH)``, twice ``(DEEPEST, WIDTH, WIDTH)``, ``(TOKENS, WIDTH)``; float64, the same each time.
    """
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randn(2, DEEPEST, WIDTH, WIDTH, generator=generator, dtype=torch.float64) / WIDTH**0.5
    probe = torch.randn(TOKENS, WIDTH, generator=generator, dtype=torch.float64)
    pixels = digits().train_images[:TOKENS].flatten(1).double()
    return layer_norm(pixels), first, 2**0.5 * second, probe


def verdict(signal: float, gradient: float) -> str:
    """Return a word for a stack: whether both sizes stay within a factor of 2, or else which is further off."""
    largest, smallest = max(signal, gradient), min(signal, gradient)
    if largest > 2:
        return "floods" if largest > 100 else "swells"
    if smallest < 0.5:
        return "dries out" if smallest < 0.01 else "shrinks"
    return "holds"


def formula(gate: float, skip: bool, norm: bool) -> str:
    """Return the formula of one connection."""
    layer = "f(norm(x))" if norm else "f(x)"
    return ("x + " if skip else "") + (layer if gate == 1 else f"{gate:g}·{layer}")


def short(size: float) -> str:
    """Return a size in at most five characters."""
    return f"{size:.2g}" if 0.001 < size < 1000 or size == 0 else f"{size:.0e}"


class StackPicture:
    """The two sizes along one stack, beside a map of the depths and gates that were tried.

    ``draw`` moves the artists listed in ``moving``, and nothing else changes.
    """

    def __init__(self, figure: Figure) -> None:
        left, right = figure.subplots(1, 2, width_ratios=[1.5, 1])
        self.signal, self.gradient = plot_profile([1, 1], [1, 1], left, DEEPEST).lines[:2]
        self.signal_end = left.set_title(" ", loc="right", color=STREAM, weight="normal")
        self.gradient_end = left.set_title(" ", loc="left", color=GRADIENT, weight="normal")
        self.holding, self.failing, self.here = plot_map(right)
        self.title = figure.suptitle(" ", x=0.01, ha="left", weight="bold")
        self.moving = [self.signal, self.gradient, self.signal_end, self.gradient_end, self.title]
        self.moving += [self.failing, self.holding, self.here]
        self.tried: Marks = {}

    def draw(self, depth: int, gate: float, skip: bool, norm: bool) -> str:
        """Move the lines to a stack, and return the reading."""
        signal, gradient = sizes(depth, gate, skip, norm)
        self.signal.set_data(range(depth + 1), signal)
        self.gradient.set_data(range(depth + 1), gradient)
        self.signal_end.set_text(f"signal {short(signal[-1])} →")
        self.gradient_end.set_text(f"← gradient {short(gradient[0])}")
        held = verdict(signal[-1], gradient[0])
        self.mark(depth, gate, on_map=skip and not norm, holds=held == "holds")
        self.title.set_text(f"{depth} times {formula(gate, skip, norm)}: it {held}")
        return (
            f"The signal leaves {signal[-1]:.3g} times as large as it came; a gradient of 1 put in at the end "
            f"arrives as {gradient[0]:.3g}: the stack {held}."
        )

    def mark(self, depth: int, gate: float, on_map: bool, holds: bool) -> None:
        """Put the present stack on the map, which has those with a skip and without a norm."""
        place = [depth], [max(gate, LEAST)]
        self.here.set_data(*place if on_map else ([], []))
        self.tried = {self.holding if holds else self.failing: place} if on_map else {}


def plot_map(ax: Axes) -> tuple[Line2D, Line2D, Line2D]:
    """Return three lines on a map of depth and gate: dots for what holds, crosses for what does not, and a ring."""
    (failing,) = ax.plot([], [], "x", color=DROPPED, ms=6)
    (holding,) = ax.plot([], [], "o", color=REFERENCE, ms=6)
    (here,) = ax.plot([], [], "o", color=REFERENCE, ms=12, fillstyle="none")
    ax.set(xscale="log", yscale="log", xlim=(0.8, 1.4 * DEEPEST), ylim=(0.8 * LEAST, 1.3), xlabel="depth")
    ax.set_xticks(depths := [1, 4, 16, 64], [str(depth) for depth in depths])
    ax.set_yticks(gates := [LEAST, 0.1, 0.3, 1], ["0", *(f"{gate:g}" for gate in gates[1:])])
    ax.minorticks_off()
    ax.set_title("gate: ● holds, × not", weight="normal")
    return holding, failing, here


def explore_stack() -> Explorer:
    """Return sliders for depth and gate, and boxes for skip and norm, over the two sizes along the stack."""
    figure = Figure(figsize=(6, 3.8))
    picture = StackPicture(figure)
    controls = {
        "depth": widgets.IntSlider(DEEPEST, 1, DEEPEST),
        "gate": widgets.FloatSlider(1.0, min=0, max=1, step=0.025, readout_format=".3f", description="gate g"),
        "skip": widgets.Checkbox(True),
        "norm": widgets.Checkbox(False),
    }
    alt = (
        "Sizes along a stack of 64 connections x + f(x), on a log scale: the signal grows out of the picture to the "
        "right and the gradient to the left, because each connection doubles their squares. A map of depth and gate "
        "beside it has one cross."
    )
    states: States = {
        "depth": [4, 16, DEEPEST],
        "gate": [0.0, 0.125, 0.275, 0.575, 1.0],
        "skip": [False, True],
        "norm": [False, True],
    }
    return Explorer(
        figure, picture.draw, controls, alt=alt, animated=picture.moving, keep=lambda: picture.tried, states=states
    )

"""Stack residual connections, and see whether signal and gradient grow, shrink or keep their size."""

from functools import cache

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from residual_edu.datasets import digits
from residual_edu.explorers.explorer import Explorer
from residual_edu.parts import layer_norm
from residual_edu.plotting.residual_connection import plot_profile
from residual_edu.plotting.style import GRADIENT, STREAM

DEEPEST, WIDTH, TOKENS = 64, 64, 8


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


def above(place: int, size: float) -> tuple[int, float]:
    """Return the place of a label above a line's end, or at the edge of the picture if the line has left it."""
    return place, float(np.clip(1.25 * size, 1.3e-3, 5e2))


class StackPicture:
    """The two sizes along one stack; ``draw`` moves the artists listed in ``moving``, and nothing else changes."""

    def __init__(self, figure: Figure) -> None:
        self.axes = plot_profile([1, 1], [1, 1], figure.add_subplot(), DEEPEST)
        self.signal, self.gradient = self.axes.lines
        self.title = self.axes.text(0, 1.04, "", transform=self.axes.transAxes, size=12, weight="bold")
        self.signal_end = self.axes.text(0, 1, "", color=STREAM, weight="bold")
        self.gradient_end = self.axes.text(0, 1, "", color=GRADIENT, weight="bold")
        self.moving = [self.signal, self.gradient, self.title, self.signal_end, self.gradient_end]

    def draw(self, depth: int, gate: float, skip: bool, norm: bool) -> str:
        """Move the lines to a stack, and return the reading."""
        signal, gradient = sizes(depth, gate, skip, norm)
        self.signal.set_data(range(depth + 1), signal)
        self.gradient.set_data(range(depth + 1), gradient)
        side = "right" if depth > DEEPEST / 2 else "left"
        self.signal_end.set(position=above(max(depth, 16), signal[-1]), text=f" signal {signal[-1]:.2g} ", ha=side)
        self.gradient_end.set(position=above(0, gradient[0]), text=f" gradient {gradient[0]:.2g}")
        held = verdict(signal[-1], gradient[0])
        self.title.set_text(f"{depth} times {formula(gate, skip, norm)}: it {held}")
        return (
            f"The signal leaves {signal[-1]:.3g} times as large as it came; a gradient of 1 put in at the end "
            f"arrives as {gradient[0]:.3g}: the stack {held}."
        )


def explore_stack() -> Explorer:
    """Return sliders for depth and gate, and boxes for skip and norm, over the two sizes along the stack."""
    figure = Figure(figsize=(7, 3.8))
    picture = StackPicture(figure)
    controls = {
        "depth": widgets.IntSlider(DEEPEST, 1, DEEPEST),
        "gate": widgets.FloatSlider(1.0, min=0, max=1, step=0.025, readout_format=".3f", description="gate g"),
        "skip": widgets.Checkbox(True),
        "norm": widgets.Checkbox(False),
    }
    alt = (
        "Sizes along a stack of 64 connections x + f(x), on a log scale: the signal grows out of the picture to the "
        "right and the gradient to the left, because each connection doubles their squares."
    )
    return Explorer(figure, picture.draw, controls, alt=alt, animated=picture.moving)

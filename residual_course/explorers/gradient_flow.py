"""Change depth, bias, activation and skip, and see signal, stream gradient and weight gradient along the stack."""

from functools import cache

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from residual_course.datasets import digits
from residual_course.explorers.explorer import Explorer
from residual_course.explorers.states import States
from residual_course.plots.three_curves import plot_three_curves
from residual_edu.parts import layer_norm

DEEPEST, WIDTH, TOKENS = 32, 64, 8
ACTIVATIONS = {"ReLU": torch.relu, "GELU": torch.nn.functional.gelu, "tanh": torch.tanh}
LOW, HIGH = 1e-20, 1e6
Curves = tuple[np.ndarray, np.ndarray, np.ndarray]


def curves(depth: int, bias: bool, activation: str, skip: bool) -> Curves:
    """Return the root mean squares of signal and stream gradient, (depth + 1,), and of the weight gradients, (depth,).

    A layer is activation(W x + b), its weights and biases drawn as PyTorch draws them. ``bias`` switches b on and
    ``skip`` adds x to the layer's output. The gradient with respect to the stream is 1 at the end.
    """
    x, weights, biases, probe = ingredients()
    leaves = [weight.detach().requires_grad_() for weight in weights[:depth]]
    stream = [x.detach().requires_grad_()]
    for weight, shift in zip(leaves, biases, strict=False):
        output = ACTIVATIONS[activation](stream[-1] @ weight + (shift if bias else 0))
        stream.append(stream[-1] + output if skip else output)
    found = torch.autograd.grad((stream[-1] * probe).sum(), [*stream, *leaves])
    return sizes(stream), sizes(found[: depth + 1]), sizes(found[depth + 1 :])


def sizes(tensors: list[Tensor] | tuple[Tensor, ...]) -> np.ndarray:
    """Return the root mean square of each tensor."""
    return torch.stack([tensor.detach().square().mean().sqrt() for tensor in tensors]).numpy()


@cache
def ingredients() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return normalised digits, weights and biases by PyTorch's rule, and the stream gradient at the end.

    Shapes ``(TOKENS, WIDTH)``, ``(DEEPEST, WIDTH, WIDTH)``, ``(DEEPEST, WIDTH)``, ``(TOKENS, WIDTH)``; float64, the
    same each time.
    """
    generator = torch.Generator().manual_seed(0)
    weights, biases = (
        (2 * torch.rand(DEEPEST, *shape, generator=generator, dtype=torch.float64) - 1) / WIDTH**0.5
        for shape in ((WIDTH, WIDTH), (WIDTH,))
    )
    probe = torch.randn(TOKENS, WIDTH, generator=generator, dtype=torch.float64)
    pixels = digits().train_images[:TOKENS].flatten(1).double()
    return layer_norm(pixels), weights, biases, probe / probe.square().mean().sqrt()


def verdict(found: Curves) -> str:
    """Return a sentence on stream gradient and weight gradient along the stack."""
    _, delta, weight = found
    flat = weight.max() / weight.min() < 10
    return f"the stream gradient {fate(delta[0] / delta[-1])}, the weights' {'is' if flat else 'is not'} flat"


def fate(ratio: float) -> str:
    """Return the verb for a stream gradient at the input that is ``ratio`` times the one at the end."""
    if ratio < 0.5:
        return "vanishes" if ratio < 1e-3 else "shrinks"
    if ratio > 2:
        return "explodes" if ratio > 100 else "grows"
    return "holds"


class CurvesPicture:
    """Three curves along one stack; ``draw`` moves the artists listed in ``moving``, and nothing else changes."""

    def __init__(self, figure: Figure) -> None:
        one = np.ones((1, DEEPEST))
        self.axes = plot_three_curves(
            {"signal": one, "stream gradient": one, "weight gradient": one[:, :-1]}, figure.add_subplot()
        )
        self.axes.set(ylim=(LOW, HIGH), xlim=(0, 1.32 * DEEPEST))
        self.axes.set_xticks(range(0, DEEPEST + 1, 8))
        self.axes.spines.bottom.set_bounds(0, DEEPEST)
        self.lines = self.axes.lines
        self.title = self.axes.text(0, 1.04, "", transform=self.axes.transAxes, weight="bold")
        names = zip(["signal", "stream gradient", "weight gradient"], self.lines, strict=True)
        self.names = [self.axes.text(0, 1, f" {name}", color=line.get_color(), va="center") for name, line in names]
        self.moving = [*self.lines, *self.names, self.title]

    def draw(self, depth: int, bias: bool, activation: str, skip: bool) -> str:
        """Move the curves to a stack, and return the reading."""
        found = curves(depth, bias, activation, skip)
        starts = (0, 0, 0.5)
        for line, values, start in zip(self.lines, found, starts, strict=True):
            line.set_data(np.arange(len(values)) + start, values)
        for text, height in zip(self.names, apart([values[-1] for values in found]), strict=True):
            text.set_position((depth + 0.3, height))
        held = verdict(found)
        self.title.set_text(held[0].upper() + held[1:])
        forward, delta, weight = found
        return (
            f"Over {depth} layers the signal becomes {forward[-1] / forward[0]:.2g} times what it was, and a gradient "
            f"of 1 put in at the end arrives as {delta[0] / delta[-1]:.2g}; the largest weight gradient is "
            f"{weight.max() / weight.min():.2g} times the smallest: {held}."
        )


def apart(heights: list[float]) -> list[float]:
    """Return heights on the log scale, moved up so that labels are at least a factor of 60 apart."""
    placed: dict[int, float] = {}
    for index in np.argsort(heights):
        below = max(placed.values(), default=LOW)
        placed[int(index)] = max(heights[index], 60 * below)
    return [placed[index] for index in range(len(heights))]


def explore_gradient_flow() -> Explorer:
    """Return sliders and boxes for depth, bias, activation and skip, over the three curves along the stack."""
    figure = Figure(figsize=(6, 3.8))
    picture = CurvesPicture(figure)
    controls = {
        "depth": widgets.IntSlider(DEEPEST, 1, DEEPEST),
        "bias": widgets.Checkbox(True),
        "activation": widgets.Dropdown(options=list(ACTIVATIONS)),
        "skip": widgets.Checkbox(False),
    }
    alt = (
        "Signal, stream gradient and weight gradient along 32 layers with bias and ReLU, without skip, on a log scale: "
        "the signal keeps a size of about a tenth, stream gradient and weight gradient fall from right to left."
    )
    states: States = {
        "depth": [4, 16, DEEPEST],
        "bias": [False, True],
        "activation": list(ACTIVATIONS),
        "skip": [False, True],
    }
    return Explorer(figure, picture.draw, controls, alt=alt, animated=picture.moving, states=states)

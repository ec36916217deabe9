"""Choose dropout's rate and place and the depth of a stack, and see how large its noise is in the stream."""

from functools import cache, partial

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from residual_course.explorers.explorer import Explorer
from residual_course.explorers.keep import Marks
from residual_course.explorers.states import States
from residual_course.plots.dropout import plot_noise
from residual_course.plots.style import DROPPED
from residual_edu.parts import layer_norm, pre_norm_residual
from residual_edu.parts.drop_path import drop_path
from residual_edu.parts.dropout import dropout

DEEPEST, WIDTH, SAMPLES = 48, 64, 64
PLACES = {
    "units of the branch": "branch",
    "samples of the branch": "path",
    "units of the stream": "stream",
    "the stream, at the start": "start",
}
DASHES = {"branch": "-", "path": "--", "stream": ":", "start": "-."}  # of the curves that stay
WORDS = "tried before: units of the branch solid, its samples dashed,\nthe stream dotted, its start dash-dotted"


def noises(rate: float, depth: int, place: str) -> np.ndarray:
    """Return dropout's noise over the signal at each of the ``depth + 1`` places of a pre-norm stack.

    The signal is the stream without dropout; the noise is the difference of two runs with different masks, over
    sqrt(2).
    """
    quiet, *loud = (streams(depth, place, rate, coins) for coins in (None, 0, 1))
    sizes = [(one - other).norm() / 2**0.5 / calm.norm() for calm, one, other in zip(quiet, *loud, strict=True)]
    return torch.stack(sizes).numpy()


def streams(depth: int, place: str, rate: float, coins: int | None) -> list[Tensor]:
    """Return the stream at each place; ``coins`` is the masks' seed, or ``None`` for evaluation."""
    x, first, second = ingredients()
    training, generator = coins is not None, torch.Generator().manual_seed(coins or 0)
    gate = partial(drop_path if place == "path" else dropout, training=training, generator=generator)
    x = gate(x, rate) if place == "start" else x
    places = [x]
    for inward, outward in zip(first[:depth], second[:depth], strict=True):
        layer = partial(feed_forward, inward, outward)
        if place == "stream":
            x = gate(pre_norm_residual(x, layer, layer_norm), rate)
        elif place == "start":
            x = pre_norm_residual(x, layer, layer_norm)
        else:
            x = pre_norm_residual(x, layer, layer_norm, [lambda branch: gate(branch, rate)])
        places.append(x)
    return places


def feed_forward(inward: Tensor, outward: Tensor, x: Tensor) -> Tensor:
    """Return the output of one branch: two linear maps with a ReLU between."""
    return torch.relu(x @ inward) @ outward


@cache
def ingredients() -> tuple[Tensor, Tensor, Tensor]:
    """Return a stream and the two weights of each branch, ``(DEEPEST, WIDTH, WIDTH)`` each, the same each time."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(SAMPLES, WIDTH, generator=generator)
    first, second = torch.randn(2, DEEPEST, WIDTH, WIDTH, generator=generator) / WIDTH**0.5
    return x, 2**0.5 * first, second


class NoisePicture:
    """The noise along one stack; ``draw`` moves the artists listed in ``moving``, and nothing else changes."""

    def __init__(self, figure: Figure) -> None:
        self.axes = plot_noise([1], figure.add_subplot(), DEEPEST)
        self.curve = self.axes.lines[0]
        self.title = self.axes.text(0, 1.04, "", transform=self.axes.transAxes, weight="bold")
        self.pale = {place: self.axes.plot([], [], color=DROPPED, lw=1.2, ls=ls)[0] for place, ls in DASHES.items()}
        self.axes.texts[0].remove()  # it would cover the curves
        self.axes.text(0.02, 0.02, WORDS, transform=self.axes.transAxes, color=DROPPED)
        self.moving = [*self.pale.values(), self.curve, self.title]
        self.tried: Marks = {}

    def draw(self, rate: float, depth: int, place: str) -> str:
        """Move the curve, and return the reading."""
        noise = noises(rate, depth, PLACES[place])
        self.curve.set_data(range(1, depth + 1), noise[1:])
        self.tried = {self.pale[PLACES[place]]: self.curve.get_data()}
        self.title.set_text(f"p = {rate:g}, {place}: noise/signal {noise[-1]:.2g}")
        return (
            f"After {depth} blocks with dropout of rate {rate:g} for {place}, two runs with other masks differ by "
            f"{noise[-1]:.2g} times the size of the stream without dropout."
        )


def explore_coins() -> Explorer:
    """Return sliders for rate and depth, and a choice of what is dropped, over the noise along the stack."""
    figure = Figure(figsize=(6, 3.6))
    picture = NoisePicture(figure)
    controls = {
        "rate": widgets.FloatSlider(0.3, min=0.05, max=0.6, step=0.05, description="rate p"),
        "depth": widgets.IntSlider(24, 1, DEEPEST),
        "place": widgets.Dropdown(options=list(PLACES), description="dropped"),
    }
    alt = (
        "Noise over signal along 24 pre-norm blocks with dropout of 0.3 on each branch: it rises in the first blocks, "
        "then stays below the signal, because each block adds a little fresh noise to a growing stream."
    )
    states: States = {"rate": [0.1, 0.3, 0.6], "depth": [3, 12, 24, DEEPEST], "place": list(PLACES)}
    return Explorer(
        figure, picture.draw, controls, alt=alt, animated=picture.moving, keep=lambda: picture.tried, states=states
    )

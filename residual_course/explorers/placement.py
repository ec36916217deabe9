"""Choose norm placement, depth and initial weights, and find what the last block's gradient depends on."""

from functools import cache, partial
from typing import cast

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Annotation
from torch import Tensor
from torch.nn.functional import cross_entropy

from residual_course.datasets import digits
from residual_course.explorers.explorer import Explorer, choice_buttons
from residual_course.explorers.keep import Marks
from residual_course.explorers.states import States
from residual_course.plots.placement import course, look, plot_courses
from residual_course.plots.style import GRADIENT, REFERENCE
from residual_edu.parts import LayerNorm, post_norm_residual, pre_norm_residual

DEEPEST, WIDTH, IMAGES, NETWORKS = 32, 64, 32, 8
WEIGHTS = {  # what the output weights of He's rule are multiplied by
    "He's": lambda depth: 1.0,
    "He's / √L": lambda depth: depth**-0.5,
    "PyTorch's": lambda depth: 18**-0.5,
    "zeros": lambda depth: 0.0,
}


def measure(depth: int, placement: str, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the size of each norm's input, and of the gradient of each block's output weights, ``(depth,)``.

    ``scale`` multiplies the output weights. Pre-norm has ``depth + 1`` norms, post-norm ``depth``. Each number is the
    mean of eight networks, a geometric one for the gradients.
    """
    x, inward, outward, head, labels = ingredients()
    residual = pre_norm_residual if placement == "pre-norm" else post_norm_residual
    unit, handed = LayerNorm(WIDTH, elementwise_affine=False), list[Tensor]()

    def norm(x: Tensor) -> Tensor:
        handed.append(x.detach().square().mean().sqrt())
        return unit(x)

    weights = [(scale * w).requires_grad_() for w in outward[:depth]]
    for first, last in zip(inward, weights, strict=False):
        x = residual(x, partial(feed_forward, first, last), norm)
    logits = (norm(x) if placement == "pre-norm" else x) @ head
    loss = cross_entropy(logits.flatten(0, 1), labels.repeat(NETWORKS), reduction="sum") / IMAGES
    gradients = torch.stack(torch.autograd.grad(loss, weights))
    return torch.stack(handed).numpy(), gradients.flatten(2).norm(dim=-1).log().mean(dim=-1).exp().numpy()


def feed_forward(inward: Tensor, outward: Tensor, x: Tensor) -> Tensor:
    """Return the output of one branch: two linear maps with a ReLU between."""
    return torch.relu(x @ inward) @ outward


@cache
def ingredients() -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return normalised digits, two weights for each branch by He's rule, those of the heads, and the labels.

    Shapes ``(NETWORKS, IMAGES, WIDTH)``, twice ``(DEEPEST, NETWORKS, WIDTH, WIDTH)``, ``(NETWORKS, WIDTH, 10)``,
    ``(IMAGES,)``; the same each time.
    """
    data, generator = digits(), torch.Generator().manual_seed(0)
    inward, outward = torch.randn(2, DEEPEST, NETWORKS, WIDTH, WIDTH, generator=generator) / WIDTH**0.5
    head = torch.randn(NETWORKS, WIDTH, 10, generator=generator) / (3 * WIDTH) ** 0.5
    x = LayerNorm(WIDTH, elementwise_affine=False)(data.train_images[:IMAGES].flatten(1))
    return x.expand(NETWORKS, -1, -1), inward, 2**0.5 * outward, head, data.train_labels[:IMAGES]


class PlacementPicture:
    """The stream's size and the blocks' gradients, beside a map of the last norm's divisor and the last gradient.

    ``draw`` moves the artists listed in ``moving``, and nothing else changes.
    """

    def __init__(self, figure: Figure) -> None:
        axes: dict[str, Axes] = figure.subplot_mosaic([["stream", "map"], ["gradients", "map"]], width_ratios=[1.2, 1])
        left, right = axes["stream"], axes["gradients"]
        plot_courses({"pre-norm": [1, 1]}, left)
        self.line, self.drop = left.lines
        self.divisor = cast(Annotation, left.texts[0])
        left.texts[1].remove()
        left.set(xlim=(0, 42), ylim=(0, 6.8), xlabel="", ylabel="stream (rms)")
        (self.gradients,) = right.plot([], [], color=GRADIENT, marker="o", ms=3.5)
        self.last = right.text(0, 1, "", color=GRADIENT, weight="bold", va="center")
        right.set(yscale="log", xlim=(0, 42), ylim=(0.08, 1.2), xlabel="block", ylabel="weight gradient")
        right.set_yticks(ticks := [0.1, 0.2, 0.5, 1], [f"{tick:g}" for tick in ticks])
        right.minorticks_off()
        self.dots, self.here = plot_map(axes["map"])
        self.title = figure.suptitle(" ", x=0.01, ha="left", weight="bold")
        self.moving = [self.line, self.drop, self.divisor, self.gradients, self.last, self.title]
        self.moving += [*self.dots.values(), self.here]
        self.tried: Marks = {}

    def draw(self, placement: str, depth: int, weights: str) -> str:
        """Move both curves to a network, and return the reading."""
        handed, gradients = measure(depth, placement, WEIGHTS[weights](depth))
        places, sizes = course(handed, placement.removesuffix("-norm"))
        self.line.set(data=(places, sizes), **look(placement))
        self.drop.set_data(places[-2:], sizes[-2:])
        self.divisor.set_text(f"÷ {handed[-1]:.2f}")
        self.divisor.xy = places[-1], sizes[-2]
        self.gradients.set_data(range(1, depth + 1), gradients)
        self.last.set(position=(depth + 1, gradients[-1]), text=f"{gradients[-1]:.3f}")
        self.here.set_data(handed[-1:], gradients[-1:])
        self.tried = {self.dots[placement]: self.here.get_data()}
        self.title.set_text(f"{placement}, {depth} block{'s' * (depth > 1)}, output weights: {weights}")
        return (
            f"The last norm divides by {handed[-1]:.2f}; the gradient of the last block is {gradients[-1]:.3f}, "
            f"that of the first {gradients[0]:.3f}."
        )


def plot_map(ax: Axes) -> tuple[dict[str, Line2D], Line2D]:
    """Return a line of dots for each placement on a map of divisor and last gradient, and the ring around one."""
    markers = {"pre-norm": "o", "post-norm": "^"}
    dots = {name: ax.plot([], [], marker, color=look(name)["color"], ms=6)[0] for name, marker in markers.items()}
    (here,) = ax.plot([], [], "o", color=REFERENCE, ms=12, fillstyle="none")
    ax.set(xscale="log", yscale="log", xlim=(0.85, 7), ylim=(0.085, 0.9))
    ax.set(xlabel="divisor of the last norm", ylabel="gradient of the last block")
    ax.set_xticks(ticks := [1.0, 2.0, 5.0], [f"{tick:g}" for tick in ticks])
    ax.set_yticks(ticks := [0.1, 0.2, 0.5], [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set_title("● pre-norm, ▲ post-norm", weight="normal")
    return dots, here


def explore_placement() -> Explorer:
    """Return controls for placement, depth and initial weights, over the stream's size and each block's gradient."""
    picture = PlacementPicture(figure := Figure(figsize=(6, 4.4)))
    controls = {
        "placement": widgets.ToggleButtons(options=["pre-norm", "post-norm"]),
        "depth": widgets.IntSlider(24, 1, DEEPEST),
        "weights": choice_buttons(WEIGHTS),
    }
    alt = (
        "Two curves along 24 pre-norm blocks. Above, the stream's size grows from 1 to 5.1, and the last norm divides "
        "by that. Below, the gradient of each block's output weights falls from 0.48 at the first to 0.12 at the last. "
        "Right, a dot for these two last numbers."
    )
    states: States = {
        "placement": ["pre-norm", "post-norm"],
        "depth": [1, 4, 8, 16, 24, DEEPEST],
        "weights": list(WEIGHTS),
    }
    return Explorer(
        figure, picture.draw, controls, alt=alt, animated=picture.moving, keep=lambda: picture.tried, states=states
    )

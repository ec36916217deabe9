"""Switch branches on and off, stack blocks, add a fault: how do stream and gradients change?"""

from functools import cache

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from residual_course.datasets import digits
from residual_course.explorers.explorer import Explorer, choice_buttons
from residual_course.explorers.faulty_block import LAST_LINE, FaultyBlock
from residual_course.explorers.states import States
from residual_course.plots.residual_block import plot_patient
from residual_edu.config import LazyConfig, Spec
from residual_edu.mixers import Attention, QKVConditionMixer, QKVSequenceMixer
from residual_edu.parts import MLP, Dropout, LayerNorm, layer_norm

DEPTHS, WIDTH, SAMPLES, RATE = (1, 2, 4, 8, 16), 32, 16, 0.2
LOW, HIGH = 1e-2, 30
Curves = tuple[np.ndarray, np.ndarray, np.ndarray]


@cache
def stack(mixer: bool, condition_mixer: bool, mlp: bool) -> tuple[FaultyBlock, ...]:
    """Return the deepest stack of blocks without a fault; a branch has the same weights in every stack."""
    blocks = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for _ in range(DEPTHS[-1]):
            whole = FaultyBlock("none", **parts())
            for name, there in {"sequence_mixer": mixer, "condition_mixer": condition_mixer, "mlp": mlp}.items():
                if not there:
                    setattr(whole.block, name, nn.Identity())
            blocks.append(whole)
    return tuple(blocks)


def parts() -> dict[str, Spec]:
    """Return the arguments that every block is built with."""
    norm, attention = LazyConfig(LayerNorm)(dim=WIDTH), LazyConfig(Attention)
    heads = attention(hidden_dim=WIDTH, num_heads=4, apply_qk_norm=False, use_rope=False)
    return {
        "sequence_mixer_cfg": LazyConfig(QKVSequenceMixer)(hidden_dim=WIDTH, mixer_cfg=heads),
        "sequence_mixer_norm_cfg": norm,
        "condition_mixer_cfg": LazyConfig(QKVConditionMixer)(hidden_dim=WIDTH, mixer_cfg=heads),
        "condition_mixer_norm_cfg": norm,
        "mlp_cfg": LazyConfig(MLP)(dim=WIDTH, activation="gelu", dropout_cfg=nn.Identity, expansion_factor=4.0),
        "mlp_norm_cfg": norm,
        "dropout_cfg": LazyConfig(Dropout)(p=RATE),
    }


@cache
def ingredients() -> tuple[Tensor, Tensor, Tensor]:
    """Return digits as 4 patches of ``WIDTH`` numbers of size 1, three class tokens, and a gradient of size 1."""
    generator = torch.Generator().manual_seed(0)
    patches = digits().train_images[:SAMPLES].unfold(1, 4, 4).unfold(2, 4, 4).reshape(SAMPLES, 4, 16)
    x = layer_norm(patches @ torch.randn(16, WIDTH, generator=generator))
    tokens, probe = torch.randn(1, 3, WIDTH, generator=generator), torch.randn(x.shape, generator=generator)
    return x, tokens, probe / probe.square().mean().sqrt()


@cache
def curves(mixer: bool, condition_mixer: bool, mlp: bool, depth: int, fault: str) -> Curves:
    """Return the sizes of the stream and its gradient, (depth + 1,), and of each MLP's weight gradient, (depth,).

    The last are 0 where the MLP has no gradient, and empty without MLPs.
    """
    x, tokens, probe = ingredients()
    blocks = stack(mixer, condition_mixer, mlp)[:depth]
    stream = [x.clone().requires_grad_()]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # the same dropout masks for every fault
        for block in blocks:
            block.fault = fault
            stream.append(block(stream[-1], tokens))
    weights = [block.get_parameter("block.mlp.layer1.weight") for block in blocks] if mlp else []
    found = torch.autograd.grad((stream[-1] * probe).sum(), [*stream, *weights], allow_unused=True)
    return sizes(stream), sizes(found[: depth + 1]), sizes(found[depth + 1 :])


def sizes(tensors: list[Tensor] | tuple[Tensor | None, ...]) -> np.ndarray:
    """Return the root mean square of each tensor, 0 for none."""
    return np.array([0.0 if t is None else t.detach().square().mean().sqrt().item() for t in tensors])


class BlocksPicture:
    """Three curves of one stack over those without a fault; ``draw`` moves the artists listed in ``moving``."""

    def __init__(self, figure: Figure) -> None:
        one = np.ones(DEPTHS[-1] + 1)
        self.axes = plot_patient((one, one, one[1:]), (one, one, one[1:]), figure.add_subplot(), LOW)
        self.axes.set(ylim=(0.7 * LOW, HIGH), xlim=(0, 1.38 * DEPTHS[-1]))
        self.axes.set_xticks([0, *DEPTHS])
        self.axes.spines.bottom.set_bounds(0, DEPTHS[-1])
        self.lines = self.axes.lines
        self.title = self.axes.text(0, 1.04, "", transform=self.axes.transAxes, weight="bold")
        names = zip(["stream", "its gradient", "MLPs' gradient"], self.lines, strict=False)
        over = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}  # the line at 1 passes behind a name
        self.names = [
            self.axes.text(0, 1, f" {name}", color=line.get_color(), va="center", bbox=over) for name, line in names
        ]
        self.moving = [*self.lines, *self.names, self.title]

    def draw(self, mixer: bool, condition_mixer: bool, mlp: bool, depth: int, fault: str) -> str:
        """Move the curves to a stack, and return the reading."""
        healthy, found = (curves(mixer, condition_mixer, mlp, depth, kind) for kind in ("none", fault))
        for line, values, start in zip(self.lines, [*healthy, *found], (0, 0, 0.5) * 2, strict=True):
            line.set_data(np.arange(len(values)) + start, np.maximum(values, LOW))
        ends = [values[-1] if len(values) else LOW for values in found]
        for text, values, height in zip(self.names, found, apart(ends), strict=True):
            text.set_position((depth + 0.2, height))
            text.set_visible(len(values) > 0)
        self.names[-1].set_text(" MLPs' gradient" if found[-1].any() else " MLPs': none")
        stream, delta, weight = found
        grows, returns = stream[-1] / stream[0], delta[0] / delta[-1]
        self.title.set_text(f"The stream ends {grows:.2g} times, its gradient {returns:.2g} times as large")
        taught = "there is none" if not len(weight) else "none comes" if not weight.any() else f"{weight.mean():.2g}"
        return (
            f"Over {depth} block{'s' * (depth > 1)} the stream becomes {grows:.2g} times as large, and a gradient of 1 "
            f"arrives as {returns:.2g}; gradient in the MLPs' weights: {taught}. Dashed: without the fault."
        )


def apart(heights: list[float]) -> list[float]:
    """Return heights on the log scale, moved up where labels would overlap."""
    placed: dict[int, float] = {}
    for index in np.argsort(heights):
        below = max(placed.values(), default=LOW / 2)
        placed[int(index)] = max(heights[index], LOW, 1.7 * below)
    return [placed[index] for index in range(len(heights))]


def explore_blocks() -> Explorer:
    """Return an explorer of stacks of residual blocks, without a fault or with the same one in each."""
    figure = Figure(figsize=(6, 3.8))
    picture = BlocksPicture(figure)
    controls = {
        "mixer": widgets.Checkbox(value=True, indent=False, description="mixer"),
        "condition_mixer": widgets.Checkbox(value=True, indent=False, description="condition mixer"),
        "mlp": widgets.Checkbox(value=True, indent=False, description="MLP"),
        "depth": widgets.SelectionSlider(options=DEPTHS, value=8),
        "fault": choice_buttons(LAST_LINE),
    }
    alt = (
        "The stream, its gradient and the gradient in each MLP along 8 healthy blocks, on a log scale: the stream "
        "swells slowly from left to right, its gradient from right to left, and every MLP has a gradient."
    )
    states: States = {"mixer": [False, True], "mlp": [False, True], "depth": [1, 8, 16], "fault": list(LAST_LINE)}
    return Explorer(figure, picture.draw, controls, alt=alt, animated=picture.moving, states=states)

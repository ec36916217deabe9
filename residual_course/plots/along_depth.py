"""The picture that every lesson has: what becomes of a signal, of its gradient and of the weights' along the depth."""

from collections.abc import Callable, Iterable, Mapping
from itertools import cycle
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from residual_course.plots.style import DROPPED, GRADIENT, SERIES, STREAM
from residual_edu import GradientFlowRecorder
from residual_edu.gradient_flow.step import first_tensor

Models = Mapping[str, tuple[nn.Module, Iterable[nn.Module]]]
# A title, what an alternative text calls it, and its ink where one model stands alone.
PANELS = (
    ("forward: what differs between the {}", "What differs between the {}", STREAM),
    ("backward: gradient of the stream", "The gradient of the stream", GRADIENT),
    ("gradient of each block's weights", "The gradient of the weights", GRADIENT),
)
APART = 0.17  # of a panel's height, between two names


def along_depth(model: nn.Module | Models, *parts: Any, over: int = 0) -> Figure:
    """Draw three sizes (root mean squares) along the depth of one model, or of several beside each other.

    ``along_depth(model, blocks, batch, loss)``, or ``along_depth({"f(x)": (net, blocks), ...}, batch, loss)``. One
    forward and one backward pass are measured; the gradients that the weights had before stay.

    Args:
        model: a model, or for each name a model and its blocks, in the order in which the stream passes them.
        parts: of a single model its blocks; then the batch, which is the model's input or a tuple that begins with it;
            and the loss, a function of the model's output and of what else is in the tuple.
        over: the axis of the stream whose mean is taken away before its size is: 0 leaves what differs between inputs,
            1 what differs between positions.

    Returns:
        The figure, labelled with an alternative text of its numbers.
    """
    *blocks, batch, loss = parts
    models = model if isinstance(model, Mapping) else {"": (model, blocks[0])}
    sizes = {name: measure(one, list(its), batch, loss, over) for name, (one, its) in models.items()}
    between, figure = "positions" if over else "inputs", Figure(figsize=(6, 5.4))
    for row, (ax, (title, _, ink)) in enumerate(zip(figure.subplots(3, sharex=True), PANELS, strict=True)):
        inks = SERIES if len(sizes) > 1 else ((ink, "-", "o"),)
        for (color, dash, mark), rows in zip(cycle(inks), sizes.values(), strict=False):
            depth = np.arange(len(rows[row])) + (row == 2) / 2  # a block's weights stand in its middle
            drawn = np.where(rows[row] > 0, rows[row], np.nan)
            ax.plot(depth, drawn, dash, color=color, marker=mark, markersize=4, clip_on=False)
        ax.set(title=title.format(between), yscale="log", ylabel="size (rms)")
        whole_decades(ax)
        name_ends(ax, list(sizes))
    ax.set_xlabel("blocks passed")
    ax.locator_params("x", integer=True)  # of two blocks there is no quarter
    figure.set_label(f"Along the depth, on logarithmic axes. {' '.join(told(sizes)).format(between)}")
    return figure


def measure(
    model: nn.Module, blocks: list[nn.Module], batch: Any, loss: Callable[..., Tensor], over: int
) -> list[np.ndarray]:
    """Return what differs along ``over`` before each block and after the last, the gradient there, the weights'."""
    x, *targets = batch if isinstance(batch, tuple) else (batch,)
    x = x.detach().requires_grad_(x.is_floating_point())  # a first block may take the input itself
    differences: list[float] = []

    def note(*values: Any) -> None:
        if (stream := first_tensor(*values)) is None:
            return
        whole = stream.detach().cpu().double()  # float32 ends at 1e-8 of what the inputs have in common
        centred = whole - whole.mean(over, keepdim=True)
        differences.append(centred.square().mean().sqrt().item())

    hooks = [block.register_forward_pre_hook(lambda _, args: note(*args)) for block in dict.fromkeys(blocks)]
    hooks.append(blocks[-1].register_forward_hook(lambda _, args, output: note(output)))
    before = [(weight, weight.grad) for weight in model.parameters()]
    model.zero_grad()
    with torch.enable_grad(), GradientFlowRecorder(model, blocks) as flow:
        loss(model(x), *targets).backward()
    for hook in hooks:
        hook.remove()
    for weight, gradient in before:
        weight.grad = gradient
    return [np.asarray(differences), flow.stream_gradient[0].numpy(), flow.weight_gradient[0].numpy()]


def whole_decades(ax: Axes) -> None:
    """Let the axis end at powers of ten, so that two of them are written at least."""
    drawn = np.concatenate([np.asarray(line.get_ydata(), float) for line in ax.get_lines()])
    if np.isfinite(drawn).any():
        low, high = np.floor(np.log10(np.nanmin(drawn))), np.ceil(np.log10(np.nanmax(drawn)))
        ax.set_ylim(10**low, 10 ** max(high, low + 1))
    ax.minorticks_off()


def name_ends(ax: Axes, names: list[str]) -> None:
    """Write each curve's name beside its end, in its ink, moved apart where they would overlap; of zeros, say so."""
    lines = ax.get_lines()
    ends = [np.asarray(line.get_ydata())[np.isfinite(np.asarray(line.get_ydata(), float))][-1:] for line in lines]
    to_axes = ax.transData + ax.transAxes.inverted()
    heights = [to_axes.transform((1, end[0]))[1] if len(end) else 0.0 for end in ends]
    order = np.argsort(heights)
    steps = APART * np.arange(len(order))
    places = np.maximum.accumulate(np.take(heights, order) - steps) + steps
    places += np.mean(heights) - places.mean()  # what moved some up moves all down a little
    for at, place in zip(order, places, strict=True):
        name = f"{names[at]}{'' if len(ends[at]) else ' is 0'}".strip()
        style: dict[str, Any] = {
            "color": lines[at].get_color() if len(ends[at]) else DROPPED,
            "weight": "bold",
            "va": "center",
        }
        ax.annotate(name, (1.01, place), xycoords="axes fraction", annotation_clip=False, **style)


def told(sizes: Mapping[str, list[np.ndarray]]) -> Iterable[str]:
    """Yield a sentence for each panel: each model's numbers at the first place and at the last."""
    for row, (_, words, _) in enumerate(PANELS):
        ends = (f"{name} from {rows[row][0]:.2g} to {rows[row][-1]:.2g}".strip() for name, rows in sizes.items())
        yield f"{words}: {', '.join(ends)}."

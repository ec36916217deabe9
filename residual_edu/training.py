"""The training loop of the lessons: minibatches, a learning-rate warm-up, the steps, the accuracy."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LinearLR, LRScheduler

from residual_edu.checked import Size, Whole, checked
from residual_edu.networks.evaluation_mode import evaluation_mode
from residual_edu.old_errors import (
    InvalidInput,
    check_axes,
    check_not_empty,
    check_same_length,
    check_shape,
    shown,
)

Batch = tuple[Tensor, ...]


@checked
def minibatches(*tensors: Tensor, size: Size = 64, seed: Whole = 0) -> Iterator[Batch]:
    """Return the rows of ``tensors`` in batches of ``size``, epoch after epoch without end, each in a new order.

    The order depends on ``seed`` alone: it is drawn on the CPU, whatever device the tensors are on.

    Raises:
        InvalidInput: for tensors of different lengths, or a size below 1.
    """
    check_same_length("tensors", tensors)
    generator = torch.Generator().manual_seed(seed)
    epochs = (torch.randperm(len(tensors[0]), generator=generator).split(size) for _ in count())
    return (tuple(x[rows.to(x.device)] for x in tensors) for rows in chain.from_iterable(epochs))


@checked
def linear_warmup(optimizer: Optimizer, steps: Size) -> LRScheduler:
    """Return a schedule that multiplies the learning rate by 1/steps, 2/steps, ..., 1, and by 1 ever after.

    Raises:
        InvalidInput: for fewer than 1 step.
    """
    return LinearLR(optimizer, start_factor=1 / steps, total_iters=steps - 1)


@checked
def train(
    loss: Callable[..., Tensor],
    batches: Iterable[Batch],
    optimizer: Optimizer,
    steps: Size,
    schedule: LRScheduler | None = None,
) -> list[float]:
    """Take ``steps`` steps of ``optimizer`` on ``loss(*batch)``, and return the loss before each step.

    Raises:
        InvalidInput: for fewer than 1 step, or for fewer batches than steps, after a step on each of them.
    """
    losses = []
    for _, batch in zip(range(steps), batches, strict=False):
        optimizer.zero_grad()
        check_batch_of("batches", batch)
        value = loss(*batch)
        check_shape("loss", value)
        value.backward()
        optimizer.step()
        if schedule is not None:
            schedule.step()
        losses.append(value.detach())
    if len(losses) < steps:
        raise InvalidInput(f"batches must be one for each of {steps} steps, got {len(losses)}; minibatches never end")
    return torch.stack(losses).tolist()


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, labels: Tensor) -> float:
    """Return the fraction of ``labels`` (rows,) where the output (rows, classes) of ``model``, for ``x``, is largest.

    The model runs in evaluation mode.

    Raises:
        InvalidInput: for labels of another shape, or that are no classes.
    """
    with evaluation_mode(model):
        output = model(x)
    check_axes("model(x)", output, "rows", "classes")
    predicted = output.argmax(dim=-1)
    if labels.shape != predicted.shape:
        raise InvalidInput(f"labels must have shape {tuple(predicted.shape)}, got {tuple(labels.shape)}")
    check_not_empty("labels", labels)
    classes = output.shape[-1]
    if labels.is_floating_point() or not 0 <= labels.min() <= labels.max() < classes:
        seen = f"{labels.dtype} from {labels.min().item()} to {labels.max().item()}"
        raise InvalidInput(f"labels must be whole numbers from 0 to {classes - 1}, got {seen}")
    right = (predicted == labels) & ~output.isnan().any(dim=-1)  # where an output is NaN, argmax returns its place
    return right.float().mean().item()


def check_batch_of(name: str, batch: object) -> None:
    """Raise ``InvalidInput`` unless ``batch`` is a tuple or list; one tensor would be unpacked into rows."""
    if not isinstance(batch, tuple | list):
        raise InvalidInput(f"{name} must be tuples of tensors, got {shown(batch)}; write (x,) for a single one")

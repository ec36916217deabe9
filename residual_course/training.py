"""The training loop of the lessons: minibatches, a learning-rate warm-up, the steps, the accuracy."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from residual_edu.errors import InvalidInput, check_shape, check_size
from residual_edu.networks.evaluation_mode import evaluation_mode

Batch = tuple[Tensor, ...]


def minibatches(*tensors: Tensor, size: int = 64, seed: int = 0) -> Iterator[Batch]:
    """Return the rows of ``tensors`` in batches of ``size``, epoch after epoch without end, each in a new order.

    The order depends on ``seed`` alone: it is drawn on the CPU, whatever device the tensors are on.

    Raises:
        InvalidInput: for tensors of different lengths.
    """
    rows = [len(x) for x in tensors]
    if len(set(rows)) != 1 or rows[0] == 0:
        raise InvalidInput(f"tensors must all have the same number of rows, at least 1, got {rows}")
    generator = torch.Generator().manual_seed(seed)
    epochs = (torch.randperm(len(tensors[0]), generator=generator).split(size) for _ in count())
    return (tuple(x[rows.to(x.device)] for x in tensors) for rows in chain.from_iterable(epochs))


def train(
    loss: Callable[..., Tensor],
    batches: Iterable[Batch],
    optimizer: Optimizer,
    steps: int,
    schedule: LRScheduler | None = None,
) -> list[float]:
    """Take ``steps`` steps of ``optimizer`` on ``loss(*batch)``, and return the loss before each step.

    Raises:
        InvalidInput: for fewer than 1 step, or for fewer batches than steps, after a step on each of them.
    """
    check_size("steps", steps)
    losses = []
    for _, batch in zip(range(steps), batches, strict=False):
        optimizer.zero_grad()
        if isinstance(batch, Tensor):  # it would be unpacked into its rows
            raise InvalidInput("batches must be tuples of tensors, got a Tensor; write (x,) for a single one")
        value = loss(*batch)
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
    check_shape("model(x)", output, "rows", "classes")
    predicted = output.argmax(dim=-1)
    if labels.shape != predicted.shape:
        raise InvalidInput(f"labels must have shape {tuple(predicted.shape)}, got {tuple(labels.shape)}")
    classes = output.shape[-1]
    if labels.is_floating_point() or labels.numel() == 0 or not 0 <= labels.min() <= labels.max() < classes:
        raise InvalidInput(f"labels must be whole numbers from 0 to {classes - 1}, got {labels}")
    right = (predicted == labels) & ~output.isnan().any(dim=-1)  # where an output is NaN, argmax returns its place
    return right.float().mean().item()

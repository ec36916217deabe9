"""What the lessons' training loops share."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LinearLR, LRScheduler

from residual_edu.errors import check_same_length, check_size

Batch = tuple[Tensor, ...]


def minibatches(*tensors: Tensor, size: int = 64, seed: int = 0) -> Iterator[Batch]:
    """Return the rows of ``tensors`` in batches of ``size``, epoch after epoch without end, each in a new order.

    The order depends on ``seed`` alone: it is drawn on the CPU, whatever device the tensors are on.

    Raises:
        InvalidInput: for tensors of different lengths, or a size below 1.
    """
    check_same_length("tensors", tensors)
    check_size("size", size)
    generator = torch.Generator().manual_seed(seed)
    epochs = (torch.randperm(len(tensors[0]), generator=generator).split(size) for _ in count())
    return (tuple(x[rows.to(x.device)] for x in tensors) for rows in chain.from_iterable(epochs))


def linear_warmup(optimizer: Optimizer, steps: int) -> LRScheduler:
    """Return a schedule on which the learning rate climbs to its full size: 1/steps, 2/steps, ..., 1, 1, ...

    Raises:
        InvalidInput: for fewer than 1 step.
    """
    check_size("steps", steps)
    return LinearLR(optimizer, start_factor=1 / steps, total_iters=steps - 1)


def train(
    loss: Callable[..., Tensor],
    batches: Iterable[Batch],
    optimizer: Optimizer,
    steps: int,
    schedule: LRScheduler | None = None,
) -> list[float]:
    """Take ``steps`` steps down ``loss(*batch)`` and return the loss before each.

    Raises:
        InvalidInput: for fewer than 1 step.
    """
    check_size("steps", steps)
    losses = []
    for _, batch in zip(range(steps), batches, strict=False):
        optimizer.zero_grad()
        value = loss(*batch)
        value.backward()
        optimizer.step()
        if schedule is not None:
            schedule.step()
        losses.append(value.detach())
    return torch.stack(losses).tolist()


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, labels: Tensor) -> float:
    """Return the share of rows of ``x`` to whose label ``model``, in evaluation, gives the largest output."""
    was_training = model.training
    right = model.eval()(x).argmax(dim=-1) == labels
    model.train(was_training)
    return right.float().mean().item()

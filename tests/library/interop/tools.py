"""What the tests of this folder share: the tensors within arguments and results, and longer or larger inputs."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

BATCH, LENGTHS = (2, 3), (5, 6)  # the sizes of these axes in ``models``: 2 texts, else 3 samples; queries and keys


def tensors(value: Any) -> list[Tensor]:
    """Every tensor within ``value``, in order."""
    return list(walk(value))


def walk(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict | tuple | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from walk(each)


def mapped(value: Any, change: Callable[[Tensor], Any]) -> Any:
    """``value`` with ``change`` applied to each tensor; what is no tensor becomes None."""
    if isinstance(value, dict):
        return {key: mapped(each, change) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(mapped(each, change) for each in value)
    return change(value) if isinstance(value, Tensor) else None


def replaced(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """``value`` with ``change`` applied to each tensor."""
    changed = iter([change(each) for each in walk(value)])
    return filled_in(value, changed)


def filled_in(value: Any, news: Iterator[Tensor]) -> Any:
    if isinstance(value, dict):
        return {key: filled_in(each, news) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(filled_in(each, news) for each in value)
    return next(news) if isinstance(value, Tensor) else value


def same(found: Any, expected: Any, **tolerance: float) -> None:
    """Compare all tensors of two results."""
    for a, b in zip(tensors(found), tensors(expected), strict=True):
        torch.testing.assert_close(a, b, **tolerance)


def batch_axis(x: Tensor, batch: int) -> list[int]:
    return [0] if x.ndim and x.shape[0] == batch else []


def length_axes(x: Tensor) -> list[int]:
    return [axis for axis, size in enumerate(x.shape) if size in LENGTHS and axis > 0]


def longer(x: Tensor, axes: list[int]) -> Tensor:
    """``x`` with 3 entries more along each of ``axes``; a mask stays one."""
    for axis in axes:
        x = torch.cat([x, x.narrow(axis, 0, min(3, x.shape[axis]))], axis)
    return x | torch.eye(*x.shape[-2:], dtype=torch.bool) if x.dtype == torch.bool and axes else x


def batch_of(call: Any) -> int:
    """The size of the batch axis in ``call``."""
    return max(each.shape[0] for each in walk(call) if each.ndim and each.shape[0] in BATCH)

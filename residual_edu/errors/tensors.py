"""Checks of tensors: their dtype, their axes, their lengths."""

from collections.abc import Sequence

import torch
from torch import Tensor

from residual_edu.errors.invalid_input import InvalidInput, shown


def check_tensor(name: str, x: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``x`` is a tensor."""
    if not isinstance(x, Tensor):
        raise InvalidInput(f"{name} must be a tensor, got {shown(x)}")


def check_floating(name: str, x: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``x`` is a tensor of floating-point numbers."""
    if not isinstance(x, Tensor) or not x.is_floating_point():
        check_tensor(name, x)
        raise InvalidInput(f"{name} must be floating point, got {x.dtype}; convert it with {name}.float()")


def check_width(name: str, x: Tensor, width: int) -> None:
    """Raise ``InvalidInput`` unless ``x`` holds floating-point numbers, ``width`` of them along its last axis."""
    if isinstance(x, Tensor) and x.is_floating_point() and x.ndim and x.shape[-1] == width:
        return
    check_floating(name, x)
    if x.ndim == 0:
        raise InvalidInput(f"{name} must have a feature axis of {width}, got a single number (no axes)")
    raise InvalidInput(f"{name} must have {width} features on its last axis, got shape {tuple(x.shape)}")


def check_axes(name: str, x: Tensor, *axes: str) -> None:
    """Raise ``InvalidInput`` unless ``x`` is a tensor with at least as many axes as are named."""
    check_tensor(name, x)
    if x.ndim < len(axes):
        raise InvalidInput(f"{name} must have at least the axes ({', '.join(axes)}), got shape {tuple(x.shape)}")


def check_batch(name: str, x: Tensor, batch: int) -> None:
    """Raise ``InvalidInput`` unless ``x`` holds ``batch`` samples, or one for them all."""
    check_axes(name, x, "batch")
    if x.shape[0] not in (1, batch):
        raise InvalidInput(f"{name} must hold {batch} samples, or 1 for them all, got shape {tuple(x.shape)}")


def check_square(name: str, x: Tensor, side: int) -> None:
    """Raise ``InvalidInput`` unless ``x`` is a batch of squares, ``side`` numbers along each side."""
    check_floating(name, x)
    if x.ndim != 3 or x.shape[1:] != (side, side):
        raise InvalidInput(f"{name} must have shape (batch, {side}, {side}), got {tuple(x.shape)}")


def check_labels(name: str, labels: Tensor, count: int) -> None:
    """Raise ``InvalidInput`` unless ``labels`` is a tensor of whole numbers from 0 to ``count`` - 1."""
    check_axes(name, labels, "batch")
    whole = labels.dtype in (torch.int32, torch.int64)
    low, high = (int(end) for end in labels.aminmax()) if whole and labels.numel() else (0, 0)
    if not whole or low < 0 or high >= count:
        seen = f"{low} to {high}" if whole else str(labels.dtype)
        raise InvalidInput(f"{name} must be whole numbers from 0 to {count - 1}, got {seen}")


def check_same_shape(name: str, x: Tensor, other: str, y: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``x`` is a tensor of ``y``'s shape."""
    check_floating(name, x)
    if x.shape != y.shape:
        raise InvalidInput(f"{name} must have the shape of {other}, {tuple(y.shape)}, got {tuple(x.shape)}")


def check_same_length(name: str, tensors: Sequence[Tensor]) -> None:
    """Raise ``InvalidInput`` unless all ``tensors`` have the same number of rows, at least one."""
    for x in tensors:
        check_axes(name, x, "rows")
    rows = [len(x) for x in tensors]
    if len(set(rows)) != 1 or rows[0] == 0:
        raise InvalidInput(f"{name} must all have the same number of rows, at least 1, got {rows}")


def check_given(name: str, x: Tensor | None) -> Tensor:
    """Return ``x``, or raise ``InvalidInput`` where it is ``None``."""
    if x is None:
        raise InvalidInput(f"{name} must be given, got None")
    return x


def check_pieces(name: str, x: Tensor, count: int) -> None:
    """Raise ``InvalidInput`` unless ``x`` is (batch, parameters), its parameters divided by ``count``."""
    check_tensor(name, x)
    if x.ndim != 2 or x.shape[-1] % count:
        raise InvalidInput(f"{name} must be (batch, a multiple of {count}), got shape {tuple(x.shape)}")

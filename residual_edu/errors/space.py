"""Checks of the space that a signal lies in: 1 to 3 axes, and their lengths."""

from collections.abc import Sequence

from torch import Tensor

from residual_edu.errors.invalid_input import InvalidInput, shown
from residual_edu.errors.numbers import check_size
from residual_edu.errors.tensors import check_floating

SPACE = {1: "positions", 2: "height, width", 3: "depth, height, width"}


def check_data_dim(name: str, value: int) -> None:
    """Raise ``InvalidInput`` unless ``value`` is 1, 2 or 3."""
    check_size(name, value)
    if value not in SPACE:
        raise InvalidInput(f"{name} must be 1, 2 or 3 (text, images, volumes), got {value}")


def check_shape(name: str, x: Tensor, data_dim: int, channels: int) -> None:
    """Raise ``InvalidInput`` unless ``x`` is (batch, ``data_dim`` space axes, ``channels``), no axis of space empty."""
    check_floating(name, x)
    if x.ndim != data_dim + 2 or x.shape[-1] != channels or 0 in x.shape[1:-1]:
        raise InvalidInput(f"{name} must have shape (batch, {SPACE[data_dim]}, {channels}), got {tuple(x.shape)}")


def check_lengths(name: str, value: int | Sequence[int], data_dim: int) -> tuple[int, ...]:
    """Return ``value`` as one length for each of ``data_dim`` axes, or raise ``InvalidInput``; a number serves all."""
    lengths = tuple(value) if isinstance(value, Sequence) else (value,) * data_dim
    if len(lengths) != data_dim:
        raise InvalidInput(f"{name} must be a number, or one for each of {data_dim} axes, got {shown(value)}")
    for length in lengths:
        check_size(name, length)
    return lengths


def check_fits(name: str, lengths: Sequence[int], space: Sequence[int]) -> None:
    """Raise ``InvalidInput`` unless each of ``lengths`` fits into its axis of ``space``."""
    if any(length > room for length, room in zip(lengths, space, strict=True)):
        raise InvalidInput(f"{name} must be at most {tuple(space)}, got {tuple(lengths)}")


def check_some_positions(name: str, x: Tensor) -> None:
    """Raise ``InvalidInput`` where ``x``, (batch, *space, channels), has a space axis of length 0."""
    if 0 in x.shape[1:-1]:
        raise InvalidInput(f"{name} must have at least 1 position along each axis, got shape {tuple(x.shape)}")

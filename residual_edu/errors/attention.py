"""Checks of what attention is given: whole shares, masks, angles."""

from math import prod

import torch
from torch import Tensor

from residual_edu.errors.invalid_input import InvalidInput
from residual_edu.errors.numbers import check_size
from residual_edu.errors.tensors import check_tensor


def check_divisible(name: str, value: int, divisor: int, why: str) -> None:
    """Raise ``InvalidInput``, with what ``divisor`` is, unless it divides ``value``, a whole number of at least 1."""
    check_size(name, value)
    if value % divisor:
        raise InvalidInput(f"{name} must be divisible by {divisor} ({why}), got {value}")


def check_last_queries(queries: int, keys: int) -> None:
    """Raise ``InvalidInput`` unless ``queries`` positions can be the last of ``keys``."""
    if queries > keys:
        raise InvalidInput(f"queries must be the last positions of keys, got {queries} queries and {keys} keys")


def check_mask(name: str, mask: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``mask`` is boolean and lets each of its rows look somewhere.

    Its values are not looked at within ``torch.compile``, which would stop there.
    """
    check_tensor(name, mask)
    if mask.dtype != torch.bool:
        raise InvalidInput(f"{name} must be boolean, True where a query may look, got {mask.dtype}; numbers go to bias")
    if not torch.compiler.is_compiling() and not mask.any(dim=-1).all():
        raise InvalidInput(f"{name} must let each query look at one key at least, got a row that is all False")


def check_exact_shape(name: str, x: Tensor, shape: tuple[int, ...]) -> None:
    """Raise ``InvalidInput`` unless ``x`` is a tensor of exactly that ``shape``."""
    check_tensor(name, x)
    if tuple(x.shape) != shape:
        raise InvalidInput(f"{name} must have shape {shape}, got {tuple(x.shape)}")


def check_positions(name: str, lengths: tuple[int, ...], positions: int) -> None:
    """Raise ``InvalidInput`` unless axes of those ``lengths`` hold that many ``positions``."""
    if prod(lengths) != positions:
        raise InvalidInput(f"{name} must hold the signal's {positions} positions, got {lengths}, {prod(lengths)}")

"""Checks of sequences of tokens: patches, a CLS token, registers, padding."""

from numbers import Integral

from torch import Tensor

from residual_edu.errors.invalid_input import InvalidInput, shown
from residual_edu.errors.tensors import check_floating


def check_tokens(name: str, x: Tensor, tokens: int | None = None, channels: int | None = None) -> None:
    """Raise ``InvalidInput`` unless ``x`` is (batch, tokens, channels), of the lengths that are given."""
    check_floating(name, x)
    found = tuple(x.shape)
    if len(found) != 3 or tokens not in (None, found[1]) or channels not in (None, found[2]):
        shape = f"(batch, {tokens or 'tokens'}, {channels or 'channels'})"
        raise InvalidInput(f"{name} must have shape {shape}, got {found}")


def check_registers_inside(start: int, count: int, tokens: int) -> None:
    """Raise ``InvalidInput`` unless ``count`` registers from token ``start`` on lie inside ``tokens``."""
    if start + count > tokens:
        raise InvalidInput(
            f"registers {start} to {start + count - 1} must lie inside the sequence, got {tokens} tokens; "
            "register_start_idx is how many tokens stand before them"
        )


def check_whole(name: str, value: int) -> None:
    """Raise ``InvalidInput`` unless ``value`` is a whole number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 0:
        raise InvalidInput(f"{name} must be a whole number, at least 0, got {shown(value)}")


def check_rows(tokens: int, grid_w: int) -> None:
    """Raise ``InvalidInput`` unless ``tokens`` fill whole rows of ``grid_w``."""
    if tokens % grid_w:
        raise InvalidInput(
            f"the tokens must fill whole rows of {grid_w}, got {tokens} tokens; pad them with {-tokens % grid_w} more"
        )


def check_images(name: str, x: Tensor, side: int, channels: int) -> None:
    """Raise ``InvalidInput`` unless ``x`` is a batch of square images, channels last."""
    check_floating(name, x)
    if x.ndim != 4 or x.shape[1:] != (side, side, channels):
        raise InvalidInput(f"{name} must have shape (batch, {side}, {side}, {channels}), got {tuple(x.shape)}")

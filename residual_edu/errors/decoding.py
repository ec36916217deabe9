"""Checks of decoding: what is kept, the room for more, and what the new positions may look at."""

from collections.abc import Iterable
from importlib.util import find_spec
from numbers import Integral

from torch import Tensor

from residual_edu.errors.invalid_input import InvalidInput, is_number, shown
from residual_edu.errors.tensors import check_tensor


def check_cache(cache: object) -> None:
    """Raise ``InvalidInput`` unless ``cache`` is a pair of tensors with as many positions, on the last axis but one."""
    first, second = cache if isinstance(cache, tuple) and len(cache) == 2 else (None, None)
    if not (isinstance(first, Tensor) and isinstance(second, Tensor)):
        raise InvalidInput(f"cache must be a pair of tensors, as an earlier call returned it, got {shown(cache)}")
    if first.ndim < 2 or second.ndim < 2 or first.shape[-2] != second.shape[-2]:
        shapes = f"{tuple(first.shape)} and {tuple(second.shape)}"
        raise InvalidInput(f"cache must hold two tensors with as many positions, got {shapes}")


def check_continues(cache: tuple[Tensor, Tensor], new: tuple[Tensor, Tensor]) -> None:
    """Raise ``InvalidInput`` unless what is ``new`` differs from ``cache`` in its number of positions alone."""
    for old, more in ((cache[0].shape, new[0].shape), (cache[1].shape, new[1].shape)):
        if old[:-2] != more[:-2] or old[-1] != more[-1]:
            wanted = ", ".join(map(str, (*more[:-2], "positions", more[-1])))
            raise InvalidInput(f"cache must hold ({wanted}), got {tuple(old)}; it is another model's or batch's")


def check_room(kept: int, new: int, limit: int) -> None:
    """Raise ``InvalidInput`` where ``new`` positions after ``kept`` ones are more than ``limit``."""
    if kept + new > limit:
        cached = f"{kept} before and {new} new ones" if kept else new
        raise InvalidInput(f"positions must be at most max_seq_len={limit}, got {cached}")


def check_mask_fits(name: str, mask: Tensor, queries: int, keys: int) -> None:
    """Raise ``InvalidInput`` unless ``mask`` says of each of ``queries`` which of ``keys`` it may look at."""
    check_tensor(name, mask)
    if mask.shape[-2:] != (queries, keys):
        raise InvalidInput(f"{name} must end in (queries, keys) = ({queries}, {keys}), got shape {tuple(mask.shape)}")


def check_blocks_of_cache(cached: int, blocks: int) -> None:
    """Raise ``InvalidInput`` unless a cache holds as many caches as there are ``blocks``."""
    if cached != blocks:
        raise InvalidInput(f"cache must hold one cache for each of {blocks} blocks, got {cached}")


def check_fraction(name: str, value: float) -> None:
    """Raise ``InvalidInput`` unless ``value`` lies in (0, 1]."""
    if not (is_number(value) and 0 < value <= 1):
        raise InvalidInput(f"{name} must lie in (0, 1], got {shown(value)}")


def check_tokens_known(name: str, tokens: Iterable[int], vocab_size: int) -> None:
    """Raise ``InvalidInput`` unless each of ``tokens`` is a whole number from 0 to ``vocab_size`` - 1."""
    for token in tokens if isinstance(tokens, Iterable) else [tokens]:
        if not isinstance(token, Integral) or not 0 <= token < vocab_size:
            raise InvalidInput(f"{name} must be whole numbers from 0 to {vocab_size - 1}, got {shown(token)}")


def check_package(name: str, by: str) -> None:
    """Raise ``InvalidInput`` unless the package ``name``, without which ``by`` cannot be, is installed."""
    if find_spec(name) is None:
        raise InvalidInput(f"{by} needs the package {name}, which is not installed; install it, or leave {by} out")

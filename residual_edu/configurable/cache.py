"""What decoding keeps from one call to the next, so that no position is computed twice.

A block's cache is a pair of tensors, (..., positions, features) each: keys and values, or what they are made from.
It grows by concatenation: below a thousand positions a preallocated one is no faster, and would need its length stored.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from residual_edu.old_errors import (
    InvalidInput,
    check_axes,
    check_instance,
    check_size,
    shown,
)

Cache = tuple[Tensor, Tensor]


def cache_length(cache: Cache | None) -> int:
    """Return the number of positions in ``cache``, 0 for None.

    Raises:
        InvalidInput: for what is no cache.
    """
    if cache is None:
        return 0
    check_cache(cache)
    return cache[0].shape[-2]


def extend(cache: Cache | None, first: Tensor, second: Tensor) -> Cache:
    """Return ``cache`` with the new positions of ``first`` and ``second`` after its own.

    Raises:
        InvalidInput: for what is no cache, or one of another model or batch.
    """
    if cache is None:
        check_cache((first, second))
        return first, second
    check_cache(cache)
    check_continues(cache[0], first)
    check_continues(cache[1], second)
    return torch.cat([cache[0], first], dim=-2), torch.cat([cache[1], second], dim=-2)


class ModelCache(NamedTuple):
    """What a language model keeps: how many positions it has seen, and the cache of each block."""

    length: int
    blocks: tuple[Cache | None, ...]

    def tensors(self) -> Iterator[Tensor]:
        """Yield every tensor of every block's cache."""
        check_instance("blocks", self.blocks, tuple)
        for cache in self.blocks:
            cache_length(cache)  # refuses what is no cache
            yield from cache or ()

    def bytes_per_token(self) -> float:
        """Return the memory for one position of one sample, in bytes, summed over all blocks."""
        check_size("length", self.length, least=0)
        batch = next((len(kept) for kept in self.tensors()), 1)
        return sum(kept.nbytes for kept in self.tensors()) / (
            batch * max(self.length, 1)
        )


def check_cache(cache: object) -> None:
    """Raise ``InvalidInput`` unless ``cache`` is a pair of tensors with the same number of positions."""
    first, second = (
        cache if isinstance(cache, tuple) and len(cache) == 2 else (None, None)
    )
    if not (isinstance(first, Tensor) and isinstance(second, Tensor)):
        raise InvalidInput(
            f"cache must be a pair of tensors, as an earlier call returned it, got {shown(cache)}"
        )
    if first.ndim < 2 or second.ndim < 2 or first.shape[-2] != second.shape[-2]:
        shapes = f"{tuple(first.shape)} and {tuple(second.shape)}"
        raise InvalidInput(
            f"cache must hold two tensors with the same number of positions, got {shapes}"
        )


def check_continues(old: Tensor, new: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``old`` and ``new`` differ in their numbers of positions alone."""
    if not isinstance(new, Tensor) or new.ndim < 2:
        check_axes("the new positions", new, "positions", "features")
    *before, _, width = (
        old.shape
    )  # one reading of each shape, without slices: this runs twice in each attention
    *wanted_before, _, wanted_width = new.shape
    if width != wanted_width or before != wanted_before:
        wanted = ", ".join(map(str, (*new.shape[:-2], "positions", new.shape[-1])))
        raise InvalidInput(
            f"cache must hold ({wanted}), got {tuple(old.shape)}; it is another model's or batch's"
        )
    if old.dtype != new.dtype or old.device != new.device:
        wanted, given = f"{new.dtype} on {new.device}", f"{old.dtype} on {old.device}"
        raise InvalidInput(
            f"cache must hold {wanted}, got {given}; it is another model's"
        )

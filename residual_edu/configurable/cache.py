"""What decoding keeps from one call to the next, so that no position is computed twice.

A block's cache is a pair of tensors, positions on the last axis but one: keys and values, or what they are made from.
It grows by concatenation: below a thousand positions a preallocated one is no faster, and it needs a length beside it.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from residual_edu.errors import check_cache, check_continues

Cache = tuple[Tensor, Tensor]


def cache_length(cache: Cache | None) -> int:
    """Return how many positions ``cache`` holds; None holds none."""
    if cache is None:
        return 0
    check_cache(cache)
    return cache[0].shape[-2]


def extend(cache: Cache | None, first: Tensor, second: Tensor) -> Cache:
    """Return ``cache`` with the new positions of ``first`` and ``second`` behind its own.

    Raises:
        InvalidInput: for what is no cache, or one of another model or batch.
    """
    if cache is None:
        return first, second
    check_cache(cache)
    check_continues(cache, (first, second))
    return torch.cat([cache[0], first], dim=-2), torch.cat([cache[1], second], dim=-2)


class ModelCache(NamedTuple):
    """What a language model keeps: how many positions it has seen, and the cache of each block."""

    length: int
    blocks: tuple[Cache | None, ...]

    def tensors(self) -> Iterator[Tensor]:
        """Yield all that is kept."""
        for cache in self.blocks:
            yield from cache or ()

    def bytes_per_token(self) -> float:
        """Return the memory that one position of the batch takes, over all blocks."""
        batch = next((len(kept) for kept in self.tensors()), 1)
        return sum(kept.nbytes for kept in self.tensors()) / (batch * max(self.length, 1))

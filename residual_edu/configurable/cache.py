"""What decoding keeps from one call to the next: no position is computed twice.

A block's cache is a pair of tensors, (..., positions, features) each: keys and values,
or what they are made from. It grows by concatenation: below a thousand positions a
preallocated one is no faster, and would need its length stored.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from residual_edu.errors import check_size

Stream = Float[Tensor, "batch positions channels"]
Mask = Shaped[Tensor, "*#batch positions keys"]
Cache = tuple[Tensor, Tensor]


def cache_length(cache: Cache | None) -> int:
    """Return the number of positions in ``cache``, 0 for None."""
    return 0 if cache is None else cache[0].shape[-2]


def extend(cache: Cache | None, first: Tensor, second: Tensor) -> Cache:
    """Return ``cache`` with the positions of ``first`` and ``second`` after its own."""
    if cache is None:
        return first, second
    old_first, old_second = cache  # a cache of another kind is refused here
    return torch.cat([old_first, first], -2), torch.cat([old_second, second], -2)


class ModelCache(NamedTuple):
    """What a language model keeps: a number of positions, and each block's cache."""

    length: int
    blocks: tuple[Cache | None, ...]

    def tensors(self) -> Iterator[Tensor]:
        """Yield every tensor of every block's cache."""
        for cache in self.blocks:
            yield from cache or ()

    def bytes_per_token(self) -> float:
        """Return the bytes for one position of one sample, summed over all blocks."""
        check_size("length", self.length, least=0)
        batch = next((len(kept) for kept in self.tensors()), 1)
        positions = batch * max(self.length, 1)
        return sum(kept.nbytes for kept in self.tensors()) / positions

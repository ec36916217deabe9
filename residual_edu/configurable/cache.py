"""What decoding keeps from one call to the next: no position is computed twice.

A block's cache is a pair of tensors, (..., positions, features) each: keys and values,
or what they are made from. It grows by concatenation: below a thousand positions a
preallocated one is no faster, and would need its length stored.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from residual_edu.errors import InvalidInput, check_size

Stream = Float[Tensor, "batch positions channels"]
Mask = Shaped[Tensor, "*#batch positions keys"]
Cache = tuple[Tensor, Tensor]


def cache_length(cache: Cache | None) -> int:
    """Return the number of positions in ``cache``, 0 for None."""
    return 0 if cache is None else cache[0].shape[-2]


def extend(cache: Cache | None, first: Tensor, second: Tensor) -> Cache:
    """Return ``cache`` with the positions of ``first`` and ``second`` after its own."""
    if cache is not None:
        both = zip(cache, (first, second), strict=True)  # or it is of another kind
        first, second = (torch.cat(each, dim=-2) for each in both)
    if first.shape[-2] != second.shape[-2]:
        found = f"{first.shape[-2]} and {second.shape[-2]}"
        raise InvalidInput(f"a cache must have as many values as keys, got {found}")
    return first, second


class ModelCache(NamedTuple):
    """What a language model keeps: a number of positions, and each block's cache."""

    length: int
    blocks: tuple[Cache | None, ...]

    def bytes_per_token(self) -> float:
        """Return the bytes for one position of one sample, summed over all blocks."""
        check_size("length", self.length, least=0)
        kept = [tensor for cache in self.blocks for tensor in cache or ()]
        positions = (len(kept[0]) if kept else 1) * max(self.length, 1)
        return sum(tensor.nbytes for tensor in kept) / positions

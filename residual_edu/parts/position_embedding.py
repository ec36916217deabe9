r"""Learned position embedding: a table for each axis, concatenated along the channels.

.. math:: P_{i_1 \dots i_n} = (E^1_{i_1}, \dots, E^n_{i_n})

So the number of parameters grows with the sum of the axes' lengths, not their product.
Dosovitskiy et al., 2020, https://arxiv.org/abs/2010.11929
"""

from collections.abc import Sequence

import torch
from torch import nn

from residual_edu.errors import InvalidInput, check_shape
from residual_edu.parts.flop_count import Signal
from residual_edu.parts.weight_decay import no_weight_decay


class PositionEmbedding(nn.Module):
    """Return a learned embedding of each position of a signal, to be added to it.

    Args:
        embedding_dim: number of channels, of which each axis has an equal share.
        data_dim: number of axes of space, 1 to 3.
        max_dim_lengths: length of the longest signal along each axis, or along all.
    """

    def __init__(
        self, embedding_dim: int, data_dim: int, max_dim_lengths: int | Sequence[int]
    ) -> None:
        super().__init__()
        if embedding_dim % data_dim:
            raise InvalidInput(f"data_dim must divide {embedding_dim}, got {data_dim}")
        if not isinstance(max_dim_lengths, Sequence):
            max_dim_lengths = [max_dim_lengths] * data_dim
        self.embedding_dim, self.data_dim = embedding_dim, data_dim
        self.max_dim_lengths = tuple(max_dim_lengths)
        share = embedding_dim // data_dim
        tables = [nn.Embedding(length, share) for length in max_dim_lengths]
        named = dict(zip("xyz", tables, strict=False))
        self.data_embeddings = no_weight_decay(nn.ModuleDict(named))

    def forward(self, x: Signal) -> Signal:
        """Return the embedding of every position of ``x``, in its shape and dtype."""
        check_shape("x", x, "batch", *"xyz"[: self.data_dim], self.embedding_dim)
        axes = [torch.arange(length, device=x.device) for length in x.shape[1:-1]]
        places = torch.meshgrid(*axes, indexing="ij")  # one (*space) for each axis
        tables = self.data_embeddings.values()
        rows = [table(place) for table, place in zip(tables, places, strict=True)]
        return torch.cat(rows, dim=-1).expand(x.shape).type_as(x)


PositionEmbeddingND = PositionEmbedding

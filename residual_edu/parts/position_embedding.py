r"""Learned positions: a table for each axis, whose rows stand side by side in the channels.

.. math:: P_{i_1 \dots i_n} = (E^1_{i_1}, \dots, E^n_{i_n})

So the parameters grow with the sum of the axes' lengths, not with their product.
Dosovitskiy et al., 2020, https://arxiv.org/abs/2010.11929
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import check_data_dim, check_divisible, check_fits, check_lengths, check_shape
from residual_edu.parts.weight_decay import no_weight_decay


class PositionEmbedding(nn.Module):
    """Say where each position of a signal stands; add what it returns: ``x + position(x)``.

    Args:
        embedding_dim: number of channels, a multiple of ``data_dim``: each axis has an equal share.
        data_dim: number of space axes, 1 to 3.
        max_dim_lengths: length of the longest signal along each axis; a number serves all axes.

    Raises:
        InvalidInput: for sizes out of range, a signal of another shape, or one longer than its table.
    """

    def __init__(self, embedding_dim: int, data_dim: int, max_dim_lengths: int | Sequence[int]) -> None:
        super().__init__()
        check_data_dim("data_dim", data_dim)
        check_divisible("embedding_dim", embedding_dim, data_dim, "data_dim")
        self.embedding_dim, self.data_dim = embedding_dim, data_dim
        self.max_dim_lengths = check_lengths("max_dim_lengths", max_dim_lengths, data_dim)
        tables = [nn.Embedding(length, embedding_dim // data_dim) for length in self.max_dim_lengths]
        self.data_embeddings = no_weight_decay(nn.ModuleDict(dict(zip("xyz", tables, strict=False))))

    def forward(self, x: Float[Tensor, "batch *space channels"]) -> Float[Tensor, "batch *space channels"]:
        """Return the embedding of every position of ``x``, of its shape and dtype, whatever its numbers."""
        check_shape("x", x, self.data_dim, self.embedding_dim)
        space = x.shape[1:-1]
        check_fits("the space axes of x", space, self.max_dim_lengths)
        places = torch.meshgrid(*(torch.arange(length, device=x.device) for length in space), indexing="ij")
        rows = [table(place) for table, place in zip(self.data_embeddings.values(), places, strict=True)]
        return torch.cat(rows, dim=-1).expand(x.shape).type_as(x)


PositionEmbeddingND = PositionEmbedding

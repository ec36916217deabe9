r"""Learned position embedding: one table for each axis, whose rows are concatenated along the channels.

.. math:: P_{i_1 \dots i_n} = (E^1_{i_1}, \dots, E^n_{i_n})

So the number of parameters grows with the sum of the axes' lengths, not with their product.
Dosovitskiy et al., 2020, https://arxiv.org/abs/2010.11929
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.checked import DataDim, Size, Sizes, checked
from residual_edu.old_errors import (
    check_divisible,
    check_fits,
    check_one_per_axis,
    check_signal,
)
from residual_edu.parts.weight_decay import no_weight_decay


class PositionEmbedding(nn.Module):
    """Return a learned embedding of each position of a signal, to be added to it: ``x + position(x)``.

    Args:
        embedding_dim: number of channels, a multiple of ``data_dim``: each axis has an equal share.
        data_dim: number of space axes, 1 to 3.
        max_dim_lengths: length of the longest signal along each axis, at least 1; one number stands for all axes.

    Raises:
        InvalidInput: for sizes out of range, a signal of another shape, or one longer than its table.
    """

    @checked
    def __init__(
        self, embedding_dim: Size, data_dim: DataDim, max_dim_lengths: Sizes
    ) -> None:
        super().__init__()
        lengths = (
            max_dim_lengths
            if isinstance(max_dim_lengths, Sequence)
            else [max_dim_lengths] * data_dim
        )
        check_shares(embedding_dim, data_dim, lengths)
        self.embedding_dim, self.data_dim, self.max_dim_lengths = (
            embedding_dim,
            data_dim,
            tuple(lengths),
        )
        tables = [nn.Embedding(length, embedding_dim // data_dim) for length in lengths]
        self.data_embeddings = no_weight_decay(
            nn.ModuleDict(dict(zip("xyz", tables, strict=False)))
        )

    def forward(
        self, x: Float[Tensor, "batch *space channels"]
    ) -> Float[Tensor, "batch *space channels"]:
        """Return the embedding of every position of ``x``, in its shape and dtype; its values do not matter."""
        check_within(x, self.embedding_dim, self.max_dim_lengths)
        axes = [torch.arange(length, device=x.device) for length in x.shape[1:-1]]
        places = torch.meshgrid(*axes, indexing="ij")  # one (*space) for each axis
        rows = [
            table(place)
            for table, place in zip(self.data_embeddings.values(), places, strict=True)
        ]
        return torch.cat(rows, dim=-1).expand(x.shape).type_as(x)


def check_shares(channels: int, axes: int, lengths: Sequence[int]) -> None:
    """Raise ``InvalidInput`` unless each of ``axes`` has as many ``channels``, and a length."""
    check_divisible("embedding_dim", channels, axes, "data_dim")
    check_one_per_axis("max_dim_lengths", lengths, axes)


def check_within(x: Tensor, channels: int, lengths: Sequence[int]) -> None:
    """Raise ``InvalidInput`` unless ``x`` is a signal of ``channels``, no axis longer than its table."""
    check_signal("x", x, channels, len(lengths))
    check_fits("the space axes of x", x.shape[1:-1], lengths)


PositionEmbeddingND = PositionEmbedding

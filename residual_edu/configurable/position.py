"""Position encodings. There are three places where one can act, and each encoding takes one of them.

=============  ==============================  ==========
``embed``      the stream, where it begins     sinusoidal
``rotate``     the queries and the keys        rope
``bias``       the scores of the attention     alibi
=============  ==============================  ==========

Each is told where its positions begin: behind those that a cache holds.
"""

from functools import cached_property

from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.configurable.config import BlockConfig
from residual_edu.errors import check_room
from residual_edu.parts.position import alibi_bias, alibi_slopes, rotary_angles, rotary_waves, rotate_by, sinusoidal


class PositionBase(nn.Module):
    """No encoding: all three places leave positions alike. Each of the others overrides one of them."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.config = config

    def embed(self, x: Float[Tensor, "batch positions channels"], start: int) -> Tensor:
        """Return the stream ``x``, whose first position is ``start``, as the first block is to meet it."""
        return x

    def rotate(self, x: Float[Tensor, "*batch positions features"], start: int) -> Tensor:
        """Return queries or keys ``x``, whose first position is ``start``, as they are to meet."""
        return x

    def bias(self, query: Float[Tensor, "*batch queries features"], keys: int) -> Tensor | None:
        """Return what is added to the scores of ``query``, the last of ``keys`` positions: (heads, queries, keys)."""
        return None


class Sinusoidal(PositionBase):
    """Sines and cosines of the position, scaled to length 1: as long as a token's embedding is at the start."""

    @cached_property
    def waves(self) -> Float[Tensor, "positions channels"]:
        """What is added to each position."""
        return sinusoidal(self.config.max_seq_len, self.config.d_model) * (2 / self.config.d_model) ** 0.5

    def embed(self, x: Float[Tensor, "batch positions channels"], start: int) -> Tensor:
        """Add each position's sines and cosines."""
        return x + self.waves[start : start + x.shape[-2]].to(x)


class RoPE(PositionBase):
    """Rotary embedding: a query's product with a key depends on the distance alone."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        widths = {config.head_dim, config.effective_rope_dim} - {0}  # of a head, and of the part of it that mla turns
        angles = {width: rotary_angles([config.max_seq_len], width, config.rope_theta) for width in widths}
        self.waves = {width: rotary_waves(theta) for width, theta in angles.items()}

    def rotate(self, x: Float[Tensor, "*batch positions features"], start: int) -> Tensor:
        """Turn each pair of features by its position's angle."""
        check_room(start, x.shape[-2], self.config.max_seq_len)
        own, partner = self.waves[x.shape[-1]]
        return rotate_by(x, own[start : start + x.shape[-2]], partner[start : start + x.shape[-2]])


class ALiBi(PositionBase):
    """A penalty that grows with the distance between query and key, faster in some heads than in others."""

    def bias(self, query: Float[Tensor, "*batch queries features"], keys: int) -> Tensor:
        """Return the penalty of each head, query and key."""
        return alibi_bias(query.shape[-2], keys, alibi_slopes(self.config.n_heads)).to(query)

"""Position encodings. One can act in three places, and each of these acts in one of them.

=============  ==============================  ==========
``embed``      the stream, before all blocks   sinusoidal
``rotate``     the queries and the keys        rope
``bias``       the scores of the attention     alibi
=============  ==============================  ==========

While decoding, ``start`` is the position of the first new token: the number of positions in the cache.
"""

from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.checked import checked
from residual_edu.configurable.config import BlockConfig, GivenConfig
from residual_edu.old_errors import (
    InvalidInput,
    check_axes,
    check_size,
    check_width,
    shown,
)
from residual_edu.parts.position import (
    alibi_bias,
    alibi_slopes,
    rotary_angles,
    rotary_cos_sin,
    rotate_by,
    sinusoidal,
)
from residual_edu.parts.tables import Tables


class PositionBase(nn.Module):
    """No encoding: none of the three methods changes anything. A subclass overrides one of them."""

    @checked
    def __init__(self, config: GivenConfig) -> None:
        super().__init__()
        self.config = config

    def embed(self, x: Float[Tensor, "batch positions channels"], start: int) -> Tensor:
        """Return the stream ``x``, whose first position is ``start``, as the first block receives it."""
        check_size("start", start, least=0)
        return x

    def rotate(
        self, x: Float[Tensor, "*batch positions features"], start: int
    ) -> Tensor:
        """Return queries or keys ``x``, whose first position is ``start``, as their products are taken."""
        check_size("start", start, least=0)
        return x

    def bias(
        self, query: Float[Tensor, "*batch queries features"], keys: int
    ) -> Tensor | None:
        """Return what is added to the scores of ``query``, the last of ``keys`` positions: (heads, queries, keys)."""
        return None


def check_room(start: int, new: int, limit: int) -> None:
    """Raise ``InvalidInput`` unless ``new`` positions fit in from ``start`` on."""
    check_size("start", start, least=0)
    if start + new > limit:
        found = f"{start} before and {new} new ones" if start else new
        raise InvalidInput(
            f"positions must be at most max_seq_len={limit}, got {found}"
        )


def check_position(name: str, position: object) -> None:
    """Raise ``InvalidInput`` unless ``position``, built for ``name``, has the three methods of ``PositionBase``."""
    missing = [
        each
        for each in ("embed", "rotate", "bias")
        if not callable(getattr(position, each, None))
    ]
    if missing:
        raise InvalidInput(
            f"position {name!r} must have embed, rotate and bias, {shown(type(position).__name__)} lacks "
            f"{', '.join(missing)}; make it a subclass of PositionBase"
        )


def rotates(position: PositionBase) -> bool:
    """Whether ``position`` has a ``rotate`` of its own."""
    return getattr(type(position), "rotate", None) is not PositionBase.rotate


class Sinusoidal(PositionBase):
    """Sines and cosines of the position, scaled to length 1, the expected length of an embedded token at the start."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        waves = (
            sinusoidal(config.max_seq_len, config.d_model) * (2 / config.d_model) ** 0.5
        )  # (positions, channels)
        self.waves = Tables(waves)

    def embed(self, x: Float[Tensor, "batch positions channels"], start: int) -> Tensor:
        """Add each position's sines and cosines."""
        check_width("x", x, self.config.d_model)
        check_axes("x", x, "positions", "channels")
        check_room(start, x.shape[-2], self.config.max_seq_len)
        (waves,) = self.waves
        return x + waves[start : start + x.shape[-2]].to(x)


class RoPE(PositionBase):
    """Rotary embedding: the product of a query and a key depends on their distance alone, not on where they are."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        widths = {config.head_dim, config.effective_rope_dim} - {
            0
        }  # a whole head's, and what mla rotates of it
        pairs = [width for width in widths if width % 2 == 0]
        angles = {
            width: rotary_angles([config.max_seq_len], width, config.rope_theta)
            for width in pairs
        }
        self.places = {
            width: place for place, width in enumerate(angles)
        }  # of a width's tables
        self.waves = nn.ModuleList(
            _in_both(*rotary_cos_sin(theta)) for theta in angles.values()
        )

    def rotate(
        self, x: Float[Tensor, "*batch positions features"], start: int
    ) -> Tensor:
        """Rotate each pair of features by its position's angle."""
        check_axes("x", x, "positions", "features")
        if x.shape[-1] not in self.places:
            raise InvalidInput(
                f"x must have as its number of features {' or '.join(map(str, self.places))}, got {tuple(x.shape)}"
            )
        check_room(start, x.shape[-2], self.config.max_seq_len)
        cos, sin, *wide = cast(Tables, self.waves[self.places[x.shape[-1]]])
        if x.dtype == torch.float64:
            cos, sin = wide
        rows = slice(start, start + x.shape[-2])
        return rotate_by(x, cos[rows], sin[rows])


def _in_both(cos: Tensor, sin: Tensor) -> Tables:
    """Return the tables in float32 and in float64, so that no call converts them."""
    return Tables(cos.float(), sin.float(), cos, sin)


class ALiBi(PositionBase):
    """A penalty that grows with the distance between query and key, faster in some heads than in others."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        self.slopes = Tables(alibi_slopes(config.n_heads))

    def bias(
        self, query: Float[Tensor, "*batch queries features"], keys: int
    ) -> Tensor:
        """Return the penalty of each head, query and key."""
        check_axes("query", query, "queries", "features")
        return alibi_bias(query.shape[-2], keys, *self.slopes).to(query)

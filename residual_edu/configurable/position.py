"""Position encodings. One can act in three places, and each of these acts in one of them.

=============  ==============================  ==========
``embed``      the stream, before all blocks   sinusoidal
``rotate``     the queries and the keys        rope
``bias``       the scores of the attention     alibi
=============  ==============================  ==========

While decoding, ``start`` is the position of the first new token: the number of positions in the cache.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.checked import checked
from residual_edu.configurable.config import BlockConfig, GivenConfig
from residual_edu.errors import InvalidInput, check_axes, check_size, check_width, shown
from residual_edu.parts.attention_checks import check_room
from residual_edu.parts.position import alibi_bias, alibi_slopes, rotary_angles, rotary_cos_sin, rotate_by, sinusoidal


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

    def rotate(self, x: Float[Tensor, "*batch positions features"], start: int) -> Tensor:
        """Return queries or keys ``x``, whose first position is ``start``, as their products are taken."""
        check_size("start", start, least=0)
        return x

    def bias(self, query: Float[Tensor, "*batch queries features"], keys: int) -> Tensor | None:
        """Return what is added to the scores of ``query``, the last of ``keys`` positions: (heads, queries, keys)."""
        return None


def check_position(name: str, position: object) -> None:
    """Raise ``InvalidInput`` unless ``position``, built for ``name``, has the three methods of ``PositionBase``."""
    missing = [each for each in ("embed", "rotate", "bias") if not callable(getattr(position, each, None))]
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
        # Made on first use: of a model's blocks only the first adds it. No buffer, so that no table is stored with the
        # weights, or rounded with them by .half(); no cached_property, whose lock torch.compile refuses in Python 3.11.
        self.waves: Tensor | None = None  # (positions, channels)

    def embed(self, x: Float[Tensor, "batch positions channels"], start: int) -> Tensor:
        """Add each position's sines and cosines."""
        check_width("x", x, self.config.d_model)
        check_axes("x", x, "positions", "channels")
        check_room(start, x.shape[-2], self.config.max_seq_len)
        if self.waves is None:
            self.waves = sinusoidal(self.config.max_seq_len, self.config.d_model) * (2 / self.config.d_model) ** 0.5
        return x + self.waves[start : start + x.shape[-2]].to(x)


class RoPE(PositionBase):
    """Rotary embedding: the product of a query and a key depends on their distance alone, not on where they are."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        widths = {config.head_dim, config.effective_rope_dim} - {0}  # a whole head's, and what mla rotates of it
        pairs = [width for width in widths if width % 2 == 0]
        # A dict, not buffers: no table is stored with the weights, or rounded with them by .half(). In float32 and in
        # float64, so that no call converts them; each is rounded once, from angles in float64.
        self.waves = {width: self._tables(width) for width in pairs}

    def rotate(self, x: Float[Tensor, "*batch positions features"], start: int) -> Tensor:
        """Rotate each pair of features by its position's angle."""
        check_axes("x", x, "positions", "features")
        if x.shape[-1] not in self.waves:
            raise InvalidInput(
                f"x must have as its number of features {' or '.join(map(str, self.waves))}, got {tuple(x.shape)}"
            )
        check_room(start, x.shape[-2], self.config.max_seq_len)
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        rows = slice(start, start + x.shape[-2])
        cos, sin = self.waves[x.shape[-1]][wide]
        return rotate_by(x, cos[rows], sin[rows])

    def _tables(self, width: int) -> dict[torch.dtype, tuple[Tensor, Tensor]]:
        cos, sin = rotary_cos_sin(rotary_angles([self.config.max_seq_len], width, self.config.rope_theta))
        return {torch.float32: (cos.float(), sin.float()), torch.float64: (cos, sin)}


class ALiBi(PositionBase):
    """A penalty that grows with the distance between query and key, faster in some heads than in others."""

    def bias(self, query: Float[Tensor, "*batch queries features"], keys: int) -> Tensor:
        """Return the penalty of each head, query and key."""
        check_axes("query", query, "queries", "features")
        return alibi_bias(query.shape[-2], keys, alibi_slopes(self.config.n_heads)).to(query)

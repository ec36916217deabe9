"""Position encodings. One can act in three places, and each of these acts in one.

=============  ==============================  ==========
``embed``      the stream, before all blocks   sinusoidal
``rotate``     the queries and the keys        rope
``bias``       the scores of the attention     alibi
=============  ==============================  ==========

While decoding, ``start`` is the number of positions in the cache.
"""

from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.configurable.cache import Stream
from residual_edu.configurable.config import BlockConfig
from residual_edu.configurable.registry import position_registry
from residual_edu.errors import InvalidInput, check_shape, check_size
from residual_edu.parts import position as formulas
from residual_edu.parts.tables import Tables

Heads = Float[Tensor, "*batch positions d"]


@position_registry.register("none")
class PositionBase(nn.Module):
    """No encoding: no method changes anything. A subclass overrides one of them."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.config = config

    def embed(self, x: Stream, start: int) -> Tensor:
        """Return the stream, ``x`` from position ``start`` on, for the first block."""
        check_size("start", start, least=0)
        return x

    def rotate(self, x: Heads, start: int) -> Tensor:
        """Return queries or keys, ``x`` from position ``start`` on."""
        return x

    def bias(self, query: Heads, keys: int) -> Tensor | None:
        """Return what is added to the scores, (heads, queries, keys), queries last."""
        return None


def check_room(start: int, new: int, limit: int) -> None:
    """Raise ``InvalidInput`` unless ``new`` positions fit in from ``start`` on."""
    if not 0 <= start <= limit - new:
        wanted = f"positions must be at most max_seq_len={limit}"
        raise InvalidInput(f"{wanted}, got {start} before and {new} new ones")


@position_registry.register("sinusoidal")
class Sinusoidal(PositionBase):
    """Sines and cosines of the position, scaled to length 1, as a token starts with."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        waves = formulas.sinusoidal(config.max_seq_len, config.d_model)
        self.waves = Tables(waves * (2 / config.d_model) ** 0.5)

    def embed(self, x: Stream, start: int) -> Tensor:
        """Add each position's sines and cosines."""
        check_shape("x", x, "batch", "positions", self.config.d_model)
        check_room(start, x.shape[-2], self.config.max_seq_len)
        (waves,) = self.waves.tables
        return x + waves[start : start + x.shape[-2]].to(x)


@position_registry.register("rope")
class RoPE(PositionBase):
    """Rotary embedding: products of queries and keys depend on their distance."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        widths = [("head", config.head_dim), ("part", config.effective_rope_dim)]
        pairs = {k: rotary_tables(config, n) for k, n in widths if n and n % 2 == 0}
        self.waves = nn.ModuleDict(pairs)

    def rotate(self, x: Heads, start: int) -> Tensor:
        """Rotate each pair of features by its position's angle."""
        check_room(start, x.shape[-2], self.config.max_seq_len)
        name = "head" if x.shape[-1] == self.config.head_dim else "part"
        tables = cast(Tables, self.waves[name]).tables
        cos, sin = tables[2:] if x.dtype == torch.float64 else tables[:2]
        rows = slice(start, start + x.shape[-2])
        return formulas.rotate_by(x, cos[rows], sin[rows])


def rotary_tables(config: BlockConfig, width: int) -> Tables:
    """Return cosines and sines, in float32 and float64: no call has to convert them."""
    angles = formulas.rotary_angles([config.max_seq_len], width, config.rope_theta)
    cos, sin = formulas.rotary_cos_sin(angles)
    return Tables(cos.float(), sin.float(), cos, sin)


@position_registry.register("alibi")
class ALiBi(PositionBase):
    """A penalty that grows with the distance of query and key, by head."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        self.slopes = Tables(formulas.alibi_slopes(config.n_heads))

    def bias(self, query: Heads, keys: int) -> Tensor:
        """Return the penalty of each head, query and key."""
        return formulas.alibi_bias(query.shape[-2], keys, *self.slopes.tables).to(query)

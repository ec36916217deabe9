"""Multi-head attention as a mixer of the positions of signals with 1 to 3 axes."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import (
    check_batch,
    check_divisible,
    check_floating,
    check_positions,
    check_positive,
    check_rate,
    check_same_axes,
    check_same_shape,
    check_size,
    check_space,
)
from residual_edu.parts.attention import fused_attention, split_heads
from residual_edu.parts.flop_count import Shape, count_positions
from residual_edu.parts.position import rotary_angles, rotate
from residual_edu.parts.qk_norm import L2Norm


class Attention(nn.Module):
    """Softmax attention in heads, over all positions of a signal at once. It has no parameters.

    Args:
        hidden_dim: number of channels, a multiple of ``num_heads``.
        num_heads: how many parts of the channels attend by themselves.
        apply_qk_norm: whether query and key of each head get length 1; their product is then not scaled.
        use_rope: whether query and key are rotated by their positions, along each axis of the signal.
        is_causal: whether a position hears none that comes later; on 2 and 3 axes later means later in raster order,
            row by row, the last axis fastest.
        attn_dropout: rate in [0, 1) at which weights are dropped in training.
        rope_base: the larger, the slower the slowest rotation; above 0.
        rope_spatial_dims: the axes that the positions lie on, where the signal comes flattened; its own if none.

    Raises:
        InvalidInput: for sizes that do not divide, numbers out of range, or signals whose shapes do not fit.
    """

    def __init__(
        self,
        hidden_dim: int,
        num_heads: int,
        apply_qk_norm: bool,
        use_rope: bool,
        is_causal: bool = False,
        attn_dropout: float = 0.0,
        rope_base: float = 10000.0,
        rope_spatial_dims: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        check_size("num_heads", num_heads)
        check_divisible("hidden_dim", hidden_dim, num_heads, "num_heads")
        check_rate("attn_dropout", attn_dropout)
        check_positive("rope_base", rope_base)
        self.hidden_dim, self.num_heads, self.head_dim = hidden_dim, num_heads, hidden_dim // num_heads
        self.apply_qk_norm, self.use_rope, self.is_causal = apply_qk_norm, use_rope, is_causal
        self.attn_dropout, self.rope_base = attn_dropout, rope_base
        self.rope_spatial_dims = None if rope_spatial_dims is None else tuple(rope_spatial_dims)
        if use_rope and self.rope_spatial_dims is not None:
            rotary_angles(self.rope_spatial_dims, self.head_dim)  # refuses now what forward would refuse later
        self.qk_norm = L2Norm() if apply_qk_norm else nn.Identity()
        self.scale = 1.0 if apply_qk_norm else self.head_dim**-0.5

    def forward(
        self,
        query: Float[Tensor, "batch *space channels"],
        key: Float[Tensor, "#batch *elsewhere channels"],
        value: Float[Tensor, "#batch *elsewhere channels"],
        *,
        conditioning: Tensor | None = None,
    ) -> Float[Tensor, "batch *space channels"]:
        """Return what each position of ``query`` hears; ``conditioning`` is of no use here and not looked at."""
        self._check(query, key, value)
        q, k, v = [split_heads(x, self.num_heads) for x in (query, key, value)]
        if self.use_rope:
            q, k = rotate(q, self._angles(query)), rotate(k, self._angles(key))
        if self.apply_qk_norm:
            q, k = self.qk_norm(q), self.qk_norm(k)
        dropout = self.attn_dropout if self.training else 0.0
        heard = fused_attention(q, k, v, scale=self.scale, dropout=dropout, is_causal=self.is_causal)
        return heard.transpose(1, 2).reshape_as(query)

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        check_space("query", query, self.hidden_dim)
        check_floating("key", key)
        if key.shape != query.shape:  # as in cross-attention
            check_space("key", key, self.hidden_dim)
            check_batch("key", key, query.shape[0])
        check_same_shape("value", value, "key", key)
        if self.use_rope:
            check_same_axes("key", key, "query", query)

    def _angles(self, x: Tensor) -> Float[Tensor, "positions pairs"]:
        lengths = self.rope_spatial_dims or tuple(x.shape[1:-1])
        check_positions("rope_spatial_dims", lengths, count_positions(x.shape[1:-1]))
        return rotary_angles(lengths, self.head_dim, self.rope_base)

    def flop_count(self, shape: Shape, inference: bool = False, key_shape: Shape | None = None) -> int:
        """Return the cost for one sample: two products of all pairs of positions, 3 a number for a norm or a rotation.

        The softmax is not counted, nor that a causal one could leave out half; ``key_shape`` is the query's if none.
        """
        queries, keys = count_positions(shape), count_positions(shape if key_shape is None else key_shape)
        pointwise = 3 * (self.apply_qk_norm + self.use_rope) * (queries + keys) * self.hidden_dim
        return 4 * queries * keys * self.hidden_dim + pointwise

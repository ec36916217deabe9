r"""Multi-head attention as a mixer of the positions of signals with 1 to 3 axes.

.. math:: y = \mathrm{softmax}(s \, q k^\top) \, v \quad \text{in each head}, \qquad s = 1 / \sqrt{d}

Vaswani et al., 2017, https://arxiv.org/abs/1706.03762; rotary positions: Su et al., 2021,
https://arxiv.org/abs/2104.09864; normalised queries and keys: Henry et al., 2020, https://arxiv.org/abs/2010.04245
"""

from collections.abc import Sequence
from contextlib import nullcontext
from math import prod

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from residual_edu.checked import Flag, Positive, Rate, Size, checked
from residual_edu.old_errors import (
    InvalidInput,
    check_batch,
    check_data_dim,
    check_divisible,
    check_same_shape,
    check_sequence,
    check_signal,
    check_size,
)
from residual_edu.parts.attention import fused_attention, split_heads
from residual_edu.parts.flop_count import Shape, count_positions
from residual_edu.parts.position import rotary_angles, rotate
from residual_edu.parts.qk_norm import L2Norm


class Attention(nn.Module):
    """Softmax attention in heads, over all positions of a signal at once. It has no parameters.

    Args:
        hidden_dim: number of channels, a multiple of ``num_heads``.
        num_heads: number of heads, at least 1; each has head_dim = hidden_dim / num_heads of the channels.
        apply_qk_norm: True: query and key of each head are divided by their L2 norms, and the scores are not scaled.
            False: the scores are divided by sqrt(head_dim).
        use_rope: True: query and key are rotated by their positions, along each axis of the signal.
        is_causal: True: a position attends to itself and earlier ones only. On 2 and 3 axes the order is raster order:
            row by row, the last axis fastest.
        attn_dropout: rate in [0, 1) at which attention weights are dropped in training.
        rope_base: base of the rotary frequencies, above 0; the larger, the longer the longest period.
        rope_spatial_dims: lengths of the axes of a signal that comes flattened to one; None: the signal's own axes.
        fused: whether torch may call a kernel for the whole. False computes the formula step by step, which has second
            derivatives and forward ones (``torch.func.jvp``); both ways return the same numbers, up to rounding.

    Raises:
        InvalidInput: for sizes that do not divide, arguments out of range, or signals whose shapes do not fit.
    """

    @checked
    def __init__(
        self,
        hidden_dim: Size,
        num_heads: Size,
        apply_qk_norm: Flag,
        use_rope: Flag,
        is_causal: Flag = False,
        attn_dropout: Rate = 0.0,
        rope_base: Positive = 10000.0,
        rope_spatial_dims: Sequence[int] | None = None,
        *,
        fused: Flag = True,
    ) -> None:
        super().__init__()
        check_heads(hidden_dim, num_heads, use_rope, rope_spatial_dims)
        self.hidden_dim, self.num_heads, self.head_dim = (
            hidden_dim,
            num_heads,
            hidden_dim // num_heads,
        )
        self.apply_qk_norm, self.use_rope, self.is_causal = (
            apply_qk_norm,
            use_rope,
            is_causal,
        )
        self.attn_dropout, self.rope_base, self.fused = attn_dropout, rope_base, fused
        self.rope_spatial_dims = (
            None if rope_spatial_dims is None else tuple(rope_spatial_dims)
        )
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
        """Return, for each position of ``query``, the weighted mean of ``value``; ``conditioning`` is ignored."""
        check_qkv(query, key, value, self.hidden_dim, self.use_rope)
        q, k, v = (
            split_heads(x, self.num_heads) for x in (query, key, value)
        )  # batch, head, position, head_dim
        if self.use_rope:
            q, k = rotate(q, self._angles(query)), rotate(k, self._angles(key))
        if self.apply_qk_norm:
            q, k = self.qk_norm(q), self.qk_norm(k)
        return self._attend(q, k, v).transpose(1, 2).reshape_as(query)

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor
    ) -> Float[Tensor, "batch head position head_dim"]:
        dropout = self.attn_dropout if self.training else 0.0
        with nullcontext() if self.fused else sdpa_kernel(SDPBackend.MATH):
            return fused_attention(
                q, k, v, scale=self.scale, dropout=dropout, is_causal=self.is_causal
            )

    def _angles(self, x: Tensor) -> Float[Tensor, "positions pairs"]:
        lengths = self.rope_spatial_dims or tuple(x.shape[1:-1])
        if prod(lengths) != prod(x.shape[1:-1]):
            raise InvalidInput(
                f"rope_spatial_dims must multiply to the signal's {prod(x.shape[1:-1])} positions, got {lengths}"
            )
        return rotary_angles(lengths, self.head_dim, self.rope_base)

    def flop_count(
        self, shape: Shape, inference: bool = False, key_shape: Shape | None = None
    ) -> int:
        """Return the cost for one sample: two products of all pairs of positions, 3 a number for a norm or a rotation.

        The softmax is not counted, nor that a causal one could leave out half; ``key_shape`` is the query's if none.
        """
        queries, keys = (
            count_positions(shape),
            count_positions(shape if key_shape is None else key_shape),
        )
        pointwise = (
            3
            * (self.apply_qk_norm + self.use_rope)
            * (queries + keys)
            * self.hidden_dim
        )
        return 4 * queries * keys * self.hidden_dim + pointwise


def check_heads(
    channels: int, heads: int, use_rope: bool, lengths: Sequence[int] | None
) -> None:
    """Raise ``InvalidInput`` for channels that cannot be cut into heads, or heads into pairs, or axes of no length."""
    check_divisible("hidden_dim", channels, heads, "num_heads")
    if lengths is not None:
        check_sequence("rope_spatial_dims", lengths)
        check_data_dim("the number of rope_spatial_dims", len(lengths))
        for length in lengths:
            check_size("rope_spatial_dims", length)
    if use_rope:
        axes = 1 if lengths is None else len(lengths)
        why = f"use_rope needs as many pairs of features for each of the axes, {axes}"
        check_divisible("head_dim", channels // heads, 2 * axes, why)


def check_qkv(
    query: Tensor, key: Tensor, value: Tensor, channels: int, same_axes: bool
) -> None:
    """Raise ``InvalidInput`` unless the three are signals of ``channels``, key and value of one shape."""
    check_signal("query", query, channels)
    check_signal("key", key, channels)
    check_batch("key", key, query.shape[0])
    check_same_shape("value", value, "key", key)
    if same_axes and key.ndim != query.ndim:
        shapes = f"{tuple(key.shape)} and {tuple(query.shape)}"
        raise InvalidInput(
            f"key must have as many axes as query where use_rope=True, got shapes {shapes}"
        )

r"""Multi-head attention as a mixer of the positions of signals with 1 to 3 axes.

.. math:: y = \mathrm{softmax}(q k^\top / \sqrt{d}) \, v \quad \text{in each head}

Vaswani et al., 2017, https://arxiv.org/abs/1706.03762
Rotary positions: Su et al., 2021, https://arxiv.org/abs/2104.09864
Normalised queries and keys: Henry et al., 2020, https://arxiv.org/abs/2010.04245
"""

from collections.abc import Sequence
from contextlib import nullcontext

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from residual_edu.errors import InvalidInput, check_rate, check_same_shape
from residual_edu.parts.attention import fused_attention, split_heads
from residual_edu.parts.flop_count import Shape, Signal, count_positions
from residual_edu.parts.position import rotary_angles, rotate
from residual_edu.parts.qk_norm import L2Norm

Other = Float[Tensor, "#batch *elsewhere channels"]


class Attention(nn.Module):
    """Softmax attention in heads, over all positions at once. It has no parameters.

    Args:
        hidden_dim: number of channels, a multiple of ``num_heads``.
        num_heads: number of heads, each with hidden_dim / num_heads of the channels.
        apply_qk_norm: divide queries and keys by their L2 norms, not scores by sqrt(d).
        use_rope: rotate query and key by their positions along each axis.
        is_causal: attend to no later position, in raster order: the last axis fastest.
        attn_dropout: rate in [0, 1) at which weights are dropped in training.
        rope_base: base of the rotary frequencies; a larger one has longer periods.
        rope_spatial_dims: lengths of the axes of a signal that comes flattened to one.
        fused: let torch call a kernel for the whole; False computes step by step, which
            has second derivatives and forward ones (``torch.func.jvp``).
    """

    def __init__(
        self,
        hidden_dim: int,
        num_heads: int,
        apply_qk_norm: bool = False,
        use_rope: bool = False,
        is_causal: bool = False,
        attn_dropout: float = 0.0,
        rope_base: float = 10000.0,
        rope_spatial_dims: Sequence[int] | None = None,
        *,
        fused: bool = True,
    ) -> None:
        super().__init__()
        if hidden_dim % num_heads:
            wanted = f"a multiple of num_heads={num_heads}"
            raise InvalidInput(f"hidden_dim must be {wanted}, got {hidden_dim}")
        check_rate("attn_dropout", attn_dropout)
        self.hidden_dim, self.num_heads = hidden_dim, num_heads
        self.head_dim = hidden_dim // num_heads
        self.apply_qk_norm, self.use_rope = apply_qk_norm, use_rope
        self.is_causal, self.attn_dropout = is_causal, attn_dropout
        self.rope_base, self.fused = rope_base, fused
        self.rope_spatial_dims = rope_spatial_dims and tuple(rope_spatial_dims)
        self.qk_norm = L2Norm() if apply_qk_norm else nn.Identity()
        self.scale = 1.0 if apply_qk_norm else self.head_dim**-0.5

    def forward(
        self, query: Signal, key: Other, value: Other, *, conditioning: object = None
    ) -> Signal:
        """Return a mean of ``value`` at each place of ``query``, unconditioned."""
        if query.shape[-1] != self.hidden_dim:
            wanted = f"query must have {self.hidden_dim} channels"
            raise InvalidInput(f"{wanted}, got {query.shape[-1]}")
        check_same_shape("value", value, "key", key)
        # batch, head, position, head_dim
        q, k, v = (split_heads(x, self.num_heads) for x in (query, key, value))
        if self.use_rope:
            if key.ndim != query.ndim:
                raise InvalidInput(f"key must have {query.ndim} axes, got {key.ndim}")
            q, k = rotate(q, self._angles(query)), rotate(k, self._angles(key))
        if self.apply_qk_norm:
            q, k = self.qk_norm(q), self.qk_norm(k)
        dropout = self.attn_dropout if self.training else 0.0
        with nullcontext() if self.fused else sdpa_kernel(SDPBackend.MATH):
            y = fused_attention(
                q, k, v, scale=self.scale, dropout=dropout, is_causal=self.is_causal
            )
        return y.transpose(1, 2).reshape_as(query)

    def _angles(self, x: Tensor) -> Float[Tensor, "positions pairs"]:
        lengths = self.rope_spatial_dims or x.shape[1:-1]
        return rotary_angles(lengths, self.head_dim, self.rope_base)

    def flop_count(
        self, shape: Shape, inference: bool = False, key_shape: Shape | None = None
    ) -> int:
        """Return the cost for one sample: products, 3 a number for norm or rotation."""
        queries = count_positions(shape)
        keys = queries if key_shape is None else count_positions(key_shape)
        pointwise = 3 * (self.apply_qk_norm + self.use_rope) * (queries + keys)
        return (4 * queries * keys + pointwise) * self.hidden_dim

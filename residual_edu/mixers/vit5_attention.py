r"""The attention of ViT-5: image patches with rotary positions, a CLS token without one, and registers with their own.

.. math:: y = W_o\,\mathrm{softmax}(s\, R_i \hat q_i \cdot R_j \hat k_j)\, v

R rotates the query and key of a patch by its row and its column, those of a register by its row and column in a small
square grid of registers, and those of the CLS token not at all. The hat is a norm over the features of a head.

Wang et al., 2026, https://arxiv.org/abs/2602.08071; registers: Darcet et al., 2023, https://arxiv.org/abs/2309.16588
"""

from collections.abc import Callable
from math import isqrt

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.checked import Count, Flag, Positive, Rate, Size, checked
from residual_edu.config import Spec, build
from residual_edu.old_errors import check_divisible, check_shape
from residual_edu.parts.attention import fused_attention, merge_heads
from residual_edu.parts.flop_count import flop_count
from residual_edu.parts.position import rotary_angles, rotary_cos_sin, rotate_by
from residual_edu.parts.start import fill
from residual_edu.parts.tables import Tables


class ViT5Attention(nn.Module):
    """Multi-head attention over [patches, CLS, registers], with its own projections.

    Args:
        hidden_dim: number of channels, a multiple of ``num_heads``; that of a head is a multiple of 4.
        num_heads: number of heads, at least 1; each has hidden_dim / num_heads of the channels.
        num_patches_h: number of patches down the image, at least 1.
        num_patches_w: number of patches across it, at least 1.
        num_registers: number of registers, at least 0.
        has_cls: whether a CLS token stands between patches and registers.
        qk_norm: what to build, once for queries and once for keys, to normalise the features of a head; None for none.
        rope_base: base of the rotary frequencies of patches, above 0; the larger, the longer the longest period.
        reg_rope_base: the same for the registers.
        attn_dropout: rate in [0, 1) at which attention weights are dropped in training.
        proj_dropout: rate in [0, 1) at which elements of the result are dropped in training.
        qkv_bias: whether the input map has a bias.
        out_proj_bias: whether the output map has one.
        scale: factor of the scores, above 0; None for 1 / sqrt(head_dim).
        init_fn_qkv_proj: fills the weight of the input map, its one argument, in place; the bias becomes 0. None for
            torch's own start.
        init_fn_out_proj: the same for the output map.

    Raises:
        InvalidInput: for sizes that do not divide, arguments out of range, or another number of tokens.
    """

    @checked
    def __init__(
        self,
        hidden_dim: Size,
        num_heads: Size,
        num_patches_h: Size,
        num_patches_w: Size,
        num_registers: Count = 4,
        has_cls: Flag = True,
        qk_norm: Spec | None = None,
        rope_base: Positive = 10000.0,
        reg_rope_base: Positive = 100.0,
        attn_dropout: Rate = 0.0,
        proj_dropout: Rate = 0.0,
        qkv_bias: Flag = False,
        out_proj_bias: Flag = False,
        scale: Positive | None = None,
        init_fn_qkv_proj: Callable[[Tensor], object] | None = None,
        init_fn_out_proj: Callable[[Tensor], object] | None = None,
    ) -> None:
        super().__init__()
        check_divisible("hidden_dim", hidden_dim, num_heads, "num_heads")
        head_dim = hidden_dim // num_heads
        self.num_heads, self.attn_dropout = num_heads, attn_dropout
        self.scale = head_dim**-0.5 if scale is None else scale
        patches = rotary_angles((num_patches_h, num_patches_w), head_dim, rope_base)
        registers = register_angles(num_registers, head_dim, reg_rope_base)
        angles = torch.cat(
            [patches, patches.new_zeros(int(has_cls), head_dim // 2), registers]
        )
        self.num_tokens, self.cos_sin = len(angles), Tables(*rotary_cos_sin(angles))
        self.init_fn_qkv_proj, self.init_fn_out_proj = (
            init_fn_qkv_proj,
            init_fn_out_proj,
        )
        qkv = nn.Linear(hidden_dim, 3 * hidden_dim, bias=qkv_bias)
        self.qkv = fill(qkv, init_fn_qkv_proj)
        self.q_norm, self.k_norm = (
            nn.Identity() if qk_norm is None else build(qk_norm) for _ in range(2)
        )
        proj = nn.Linear(hidden_dim, hidden_dim, bias=out_proj_bias)
        self.proj = fill(proj, init_fn_out_proj)
        self.proj_drop = nn.Dropout(proj_dropout) if proj_dropout else nn.Identity()

    def reset_parameters(self) -> None:
        """Fill both maps again, where there is an ``init_fn``."""
        fill(self.qkv, self.init_fn_qkv_proj)
        fill(self.proj, self.init_fn_out_proj)

    def forward(
        self,
        x: Float[Tensor, "batch tokens channels"],
        *,
        conditioning: Tensor | None = None,
    ) -> Float[Tensor, "batch tokens channels"]:
        """Attend from each token to all; ``conditioning`` is ignored."""
        dropout = self.attn_dropout if self.training else 0.0
        y = fused_attention(
            *self.heads(x), scale=self.scale, dropout=dropout
        )  # batch, head, token, head_dim
        return self.proj_drop(self.proj(merge_heads(y)))

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries and keys, normalised and rotated, and values, each (batch, heads, tokens, head_dim)."""
        check_shape(
            "x", x, "batch", self.num_tokens, self.qkv.in_features, layer=self.qkv
        )
        q, k, v = (
            self.qkv(x)
            .unflatten(-1, (3, self.num_heads, -1))
            .permute(2, 0, 3, 1, 4)
            .unbind(0)
        )
        return (
            rotate_by(self.q_norm(q), *self.cos_sin.tables),
            rotate_by(self.k_norm(k), *self.cos_sin.tables),
            v,
        )

    def flop_count(self, num_tokens: int, inference: bool = False) -> int:
        """Return the cost for one sample: maps, norms, rotations (3 a number), and two products of all pairs of tokens.

        The softmax is not counted.
        """
        width = self.qkv.in_features
        norms = sum(
            flop_count(norm, num_tokens * self.num_heads)
            for norm in (self.q_norm, self.k_norm)
        )
        return (
            8 * num_tokens * width**2
            + norms
            + 6 * num_tokens * width
            + 4 * num_tokens**2 * width
        )

    def extra_repr(self) -> str:
        """Return the numbers of tokens and heads, for ``repr``."""
        return f"{self.num_tokens} tokens, num_heads={self.num_heads}"


def register_angles(
    count: int, head_dim: int, base: float
) -> Float[Tensor, "registers pairs"]:
    """Return the rotary angles of ``count`` registers on the smallest square grid that holds them, row by row."""
    side = isqrt(max(count - 1, 0)) + 1
    return rotary_angles((side, side), head_dim, base)[:count]

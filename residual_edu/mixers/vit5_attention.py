r"""The attention of ViT-5: tokens of an image that know their place, a CLS token and registers that have none there.

.. math:: y = W_o\,\mathrm{softmax}(s\, R_i \hat q_i \cdot R_j \hat k_j)\, v

R turns queries and keys by the place of their patch, down and across; the registers' by a small grid of their own, and
the CLS token's not at all. Wang et al., 2026, https://arxiv.org/abs/2602.08071
"""

from math import isqrt

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.config import Spec, build
from residual_edu.errors import check_divisible, check_positive, check_rate, check_size, check_tokens, check_whole
from residual_edu.parts.attention import fused_attention, merge_heads
from residual_edu.parts.flop_count import flop_count
from residual_edu.parts.mlp import InitMethod, start
from residual_edu.parts.position import rotary_angles, rotary_waves, rotate_by


class ViT5Attention(nn.Module):
    """Multi-head attention over [patches, CLS, registers], with its own projections.

    Args:
        hidden_dim: number of channels, a multiple of ``num_heads``; that of a head is a multiple of 4.
        num_heads: how many parts of the channels attend by themselves.
        num_patches_h: number of patches down the image.
        num_patches_w: number of patches across it.
        num_registers: number of registers, at least 0; they fill a small square grid of their own, row by row.
        has_cls: whether a CLS token stands between patches and registers.
        qk_norm: what to build, once for queries and once for keys, to normalise the features of a head.
        rope_base: what the periods of the patches' rotations grow towards.
        reg_rope_base: the same for the registers.
        attn_dropout: rate in [0, 1) at which weights are dropped in training.
        proj_dropout: rate in [0, 1) at which elements of the result are.
        qkv_bias: whether the map in has a bias.
        out_proj_bias: whether the map out has one.
        scale: what scores are multiplied by, 1 / sqrt(head_dim) if none is given.
        init_fn_qkv_proj: called with ``hidden_dim``, returns what fills the weight of the map in; its bias becomes 0.
        init_fn_out_proj: the same for the map out.

    Raises:
        InvalidInput: for sizes that do not divide, numbers out of range, or another number of tokens.
    """

    def __init__(
        self,
        hidden_dim: int,
        num_heads: int,
        num_patches_h: int,
        num_patches_w: int,
        num_registers: int = 4,
        has_cls: bool = True,
        qk_norm: Spec | None = None,
        rope_base: float = 10000.0,
        reg_rope_base: float = 100.0,
        attn_dropout: float = 0.0,
        proj_dropout: float = 0.0,
        qkv_bias: bool = False,
        out_proj_bias: bool = False,
        scale: float | None = None,
        init_fn_qkv_proj: InitMethod | None = None,
        init_fn_out_proj: InitMethod | None = None,
    ) -> None:
        super().__init__()
        check_size("num_heads", num_heads)
        check_divisible("hidden_dim", hidden_dim, num_heads, "num_heads")
        check_whole("num_registers", num_registers)
        check_rate("attn_dropout", attn_dropout)
        check_rate("proj_dropout", proj_dropout)
        head_dim = hidden_dim // num_heads
        self.num_heads, self.attn_dropout = num_heads, attn_dropout
        self.scale = head_dim**-0.5 if scale is None else scale
        check_positive("scale", self.scale)
        patches = rotary_angles((num_patches_h, num_patches_w), head_dim, rope_base)
        registers = register_angles(num_registers, head_dim, reg_rope_base)
        angles = torch.cat([patches, torch.zeros(int(has_cls), head_dim // 2), registers])
        self.num_tokens, self.waves = len(angles), rotary_waves(angles)
        self.qkv = start(nn.Linear(hidden_dim, 3 * hidden_dim, bias=qkv_bias), init_fn_qkv_proj, hidden_dim)
        self.q_norm, self.k_norm = (nn.Identity() if qk_norm is None else build(qk_norm) for _ in range(2))
        self.proj = start(nn.Linear(hidden_dim, hidden_dim, bias=out_proj_bias), init_fn_out_proj)
        self.proj_drop = nn.Dropout(proj_dropout) if proj_dropout else nn.Identity()

    def forward(
        self, x: Float[Tensor, "batch tokens channels"], *, conditioning: Tensor | None = None
    ) -> Float[Tensor, "batch tokens channels"]:
        """Return what each token hears; ``conditioning`` is of no use here and not looked at."""
        dropout = self.attn_dropout if self.training else 0.0
        heard = fused_attention(*self.heads(x), scale=self.scale, dropout=dropout)
        return self.proj_drop(self.proj(merge_heads(heard)))

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries and keys, normalised and rotated, and values, each (batch, heads, tokens, head_dim)."""
        check_tokens("x", x, self.num_tokens, self.qkv.in_features)
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        return rotate_by(self.q_norm(q), *self.waves), rotate_by(self.k_norm(k), *self.waves), v

    def flop_count(self, num_tokens: int, inference: bool = False) -> int:
        """Return the cost for one sample: the maps, the norms, 3 a number for a rotation, two products of all pairs.

        The softmax is not counted.
        """
        width = self.qkv.in_features
        norms = sum(flop_count(norm, num_tokens * self.num_heads) for norm in (self.q_norm, self.k_norm))
        return 8 * num_tokens * width**2 + norms + 6 * num_tokens * width + 4 * num_tokens**2 * width

    def extra_repr(self) -> str:
        """Say tokens and heads."""
        return f"{self.num_tokens} tokens, num_heads={self.num_heads}"


def register_angles(count: int, head_dim: int, base: float) -> Float[Tensor, "registers pairs"]:
    """Return the rotary angles of ``count`` registers on the smallest square grid that holds them, row by row."""
    side = isqrt(max(count - 1, 0)) + 1
    return rotary_angles((side, side), head_dim, base)[:count]

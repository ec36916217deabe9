r"""The attention of ViT-5: rotary positions for image patches and for registers.

.. math:: y = W_o\,\mathrm{softmax}(s\, R_i \hat q_i \cdot R_j \hat k_j)\, v

R rotates the query and key of a patch by its row and column, those of a register by its
row and column in a small square grid of registers, and those of the CLS token not at
all. The hat is a norm over the features of a head.
Wang et al., 2026, https://arxiv.org/abs/2602.08071
Registers: Darcet et al., 2023, https://arxiv.org/abs/2309.16588
"""

from math import isqrt

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.config import Spec, build
from residual_edu.errors import check_rate, check_shape, check_size
from residual_edu.parts.attention import fused_attention, merge_heads
from residual_edu.parts.flop_count import flop_count
from residual_edu.parts.position import rotary_angles, rotary_cos_sin, rotate_by
from residual_edu.parts.start import Fill, fill
from residual_edu.parts.tables import Tables

Tokens = Float[Tensor, "batch tokens channels"]


class ViT5Attention(nn.Module):
    """Multi-head attention over [patches, CLS, registers], with its own projections.

    Args:
        hidden_dim, num_heads: numbers of channels and heads; 4 divides their ratio.
        num_patches_h, num_patches_w: numbers of patches down and across the image.
        num_registers: number of registers, at least 0.
        has_cls: whether a CLS token stands between patches and registers.
        qk_norm: what to build for the features of a head of queries, and again of keys.
        rope_base, reg_rope_base: bases of the rotary frequencies of patches, registers.
        attn_dropout, proj_dropout: rates in [0, 1) for weights and for the result.
        qkv_bias, out_proj_bias: whether the input and the output map have a bias.
        scale: factor of the scores; None for 1 / sqrt(head_dim).
        init_fn_qkv_proj, init_fn_out_proj: fill a weight (bias 0); None: as torch.
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
        init_fn_qkv_proj: Fill | None = None,
        init_fn_out_proj: Fill | None = None,
    ) -> None:
        super().__init__()
        check_size("num_registers", num_registers, least=0)
        check_rate("attn_dropout", attn_dropout)
        check_rate("proj_dropout", proj_dropout)
        head_dim = hidden_dim // num_heads
        self.num_heads, self.attn_dropout = num_heads, attn_dropout
        self.scale = head_dim**-0.5 if scale is None else scale
        self.init_fn_qkv_proj = init_fn_qkv_proj
        self.init_fn_out_proj = init_fn_out_proj
        patches = rotary_angles((num_patches_h, num_patches_w), head_dim, rope_base)
        cls = patches.new_zeros(int(has_cls), head_dim // 2)
        side = isqrt(max(num_registers - 1, 0)) + 1  # the smallest square for them
        square = rotary_angles((side, side), head_dim, reg_rope_base)
        angles = torch.cat([patches, cls, square[:num_registers]])
        self.num_tokens, self.cos_sin = len(angles), Tables(*rotary_cos_sin(angles))
        qkv = nn.Linear(hidden_dim, 3 * hidden_dim, bias=qkv_bias)
        self.qkv = fill(qkv, init_fn_qkv_proj)
        norm = nn.Identity if qk_norm is None else qk_norm
        self.q_norm, self.k_norm = build(norm), build(norm)
        proj = nn.Linear(hidden_dim, hidden_dim, bias=out_proj_bias)
        self.proj = fill(proj, init_fn_out_proj)
        self.proj_drop = nn.Dropout(proj_dropout) if proj_dropout else nn.Identity()

    def reset_parameters(self) -> None:
        """Fill both maps again, where there is an ``init_fn``."""
        fill(self.qkv, self.init_fn_qkv_proj)
        fill(self.proj, self.init_fn_out_proj)

    def forward(self, x: Tokens, *, conditioning: Tensor | None = None) -> Tokens:
        """Attend from each token to all; ``conditioning`` is ignored."""
        dropout = self.attn_dropout if self.training else 0.0
        y = fused_attention(*self.heads(x), scale=self.scale, dropout=dropout)
        return self.proj_drop(self.proj(merge_heads(y)))

    def heads(self, x: Tokens) -> tuple[Tensor, Tensor, Tensor]:
        """Return normalised, rotated queries and keys, and values, of each head."""
        check_shape("x", x, "batch", self.num_tokens, "channels")
        qkv = self.qkv(x).unflatten(-1, (3, self.num_heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # batch, head, token, head_dim
        q, k = self.q_norm(q), self.k_norm(k)
        cos, sin = self.cos_sin.tables
        return rotate_by(q, cos, sin), rotate_by(k, cos, sin), v

    def flop_count(self, num_tokens: int, inference: bool = False) -> int:
        """Return the cost for one sample: norms, maps, rotations, two products."""
        width, heads = self.qkv.in_features, num_tokens * self.num_heads
        norms = sum(flop_count(norm, heads) for norm in (self.q_norm, self.k_norm))
        return norms + num_tokens * width * (8 * width + 6 + 4 * num_tokens)

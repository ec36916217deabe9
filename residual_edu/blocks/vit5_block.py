r"""The block of ViT-5: a mixer and an MLP, each with RMSNorm, LayerScale and DropPath.

.. math::
    x \leftarrow x +
        \mathrm{drop}(\gamma_1 \cdot \mathrm{grn}(\mathrm{mixer}(\mathrm{norm}(x), c))),
    \qquad x \leftarrow x + \mathrm{drop}(\gamma_2 \cdot \mathrm{mlp}(\mathrm{norm}(x)))

The condition c, if there is one, is pooled from the registers of norm(x). Both gammas
start small, so that the block starts near the identity.
Wang et al., 2026, https://arxiv.org/abs/2602.08071
"""

from functools import partial
from typing import Any

from torch import Tensor, nn

from residual_edu.config import Spec, build, build_beside
from residual_edu.errors import InvalidInput, check_shape, check_size
from residual_edu.mixers.film import check_no_film, reads_condition
from residual_edu.mixers.vit5_attention import Tokens, ViT5Attention
from residual_edu.parts.drop_path import DropPath
from residual_edu.parts.flop_count import flop_count
from residual_edu.parts.layer_scale import LayerScale
from residual_edu.parts.mlp import MLP
from residual_edu.parts.residual import Map, pre_norm_residual
from residual_edu.parts.rms_norm import RMSNorm
from residual_edu.parts.weight_decay import no_weight_decay


class ViT5ResidualBlock(nn.Module):
    """A mixer and an MLP, each with a gate per channel and stochastic depth.

    The tokens are ordered [patches, CLS, registers, padding]. Pooled registers reach a
    mixer that reads ``conditioning=``. ``nn.Identity`` leaves a branch out, norm too.

    Args:
        sequence_mixer_cfg: mixes the tokens, with projections of its own.
        mlp_cfg: maps each token by itself.
        sequence_mixer_norm_cfg, mlp_norm_cfg: the norms before them.
        hidden_dim: number of channels.
        layer_scale_init: starting value of both gates; 0 leaves LayerScale out.
        drop_path_rate: rate in [0, 1) at which samples lose a branch in training.
        register_pooling_cfg: pools (batch, registers, channels) to (batch, channels).
        num_registers: number of registers; with 0 nothing is pooled.
        register_start_idx: number of tokens before them, patches and CLS.
        grn_cfg: lets the mixer's channels compete: ``GlobalResponseNorm``.
    """

    def __init__(
        self,
        sequence_mixer_cfg: Spec,
        sequence_mixer_norm_cfg: Spec,
        mlp_cfg: Spec,
        mlp_norm_cfg: Spec,
        hidden_dim: int,
        layer_scale_init: float = 1e-4,
        drop_path_rate: float = 0.0,
        register_pooling_cfg: Spec | None = None,
        num_registers: int = 0,
        register_start_idx: int = 1,
        grn_cfg: Spec | None = None,
    ) -> None:
        super().__init__()
        check_size("num_registers", num_registers, least=0)
        check_size("register_start_idx", register_start_idx, least=0)
        self.hidden_dim, self.num_registers = hidden_dim, num_registers
        self.register_start_idx = register_start_idx
        mixer, mlp = build(sequence_mixer_cfg), build(mlp_cfg)
        norm = build_beside(mixer, sequence_mixer_norm_cfg)
        self.input_norm, self.sequence_mixer = no_weight_decay(norm), mixer
        self.mlp_norm, self.mlp = no_weight_decay(build_beside(mlp, mlp_norm_cfg)), mlp
        scale = partial(LayerScale, hidden_dim, layer_scale_init)
        gate = scale if layer_scale_init else nn.Identity
        self.ls_attn, self.ls_mlp = build_beside(mixer, gate), build_beside(mlp, gate)
        self.drop_path = DropPath(drop_path_rate) if drop_path_rate else nn.Identity()
        self.grn = None if grn_cfg is None else build_beside(mixer, grn_cfg)
        self.register_pooling: Any = None
        if not num_registers or register_pooling_cfg is None:
            check_no_film("sequence_mixer_cfg", mixer)
        elif reads_condition(mixer) is not False:
            self.register_pooling = build(register_pooling_cfg)

    @classmethod
    def standard(
        cls,
        dim: int,
        heads: int,
        num_patches_h: int,
        num_patches_w: int,
        num_registers: int = 4,
        *,
        drop_path_rate: float = 0.0,
    ) -> "ViT5ResidualBlock":
        """Return ViT-5's attention and an MLP with 4 * dim hidden features."""
        tokens = (num_patches_h, num_patches_w, num_registers)
        qk_norm = partial(RMSNorm, dim // heads)
        mixer = partial(ViT5Attention, dim, heads, *tokens, qk_norm=qk_norm)
        mlp = partial(MLP, dim, "gelu", nn.Identity, expansion_factor=4.0)
        norm = partial(RMSNorm, dim)
        return cls(mixer, norm, mlp, norm, dim, drop_path_rate=drop_path_rate)

    def forward(self, x: Tokens, condition: Tensor | None = None) -> Tokens:
        """Add both branches to ``x``; ``condition``, for other blocks, is ignored."""
        check_shape("x", x, "batch", "tokens", self.hidden_dim)
        pooled = self.register_pooling is not None
        mixer: Map = self._mix_with_registers if pooled else self.sequence_mixer
        competing = [] if self.grn is None else [self.grn]
        gates = [*competing, self.ls_attn, self.drop_path]
        x = pre_norm_residual(x, mixer, self.input_norm, gates)
        gates = [self.ls_mlp, self.drop_path]
        return pre_norm_residual(x, self.mlp, self.mlp_norm, gates)

    def _mix_with_registers(self, tokens: Tensor) -> Tensor:
        """Run the mixer on normed tokens, conditioned on the registers among them."""
        start = self.register_start_idx
        end = start + self.num_registers
        if end > tokens.shape[1]:
            wanted = f"registers {start} to {end - 1} must lie inside the sequence"
            raise InvalidInput(f"{wanted}, got {tokens.shape[1]} tokens")
        vector = self.register_pooling(tokens[:, start:end])
        return self.sequence_mixer(tokens, conditioning=vector)

    def flop_count(self, num_tokens: int, inference: bool = False) -> int:
        """Return the cost for one sample of ``num_tokens``; sums are not counted."""
        pooling = self.register_pooling
        parts = [part for part in self.children() if part is not pooling]
        cost = sum(flop_count(part, num_tokens, inference) for part in parts)
        return cost + (0 if pooling is None else flop_count(pooling, self.hidden_dim))

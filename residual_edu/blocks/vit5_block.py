r"""The block of ViT-5: attention or a long convolution, then an MLP, each behind RMSNorm, LayerScale and DropPath.

.. math::
    x \leftarrow x + \mathrm{drop}(\gamma_1 \cdot \mathrm{grn}(\mathrm{mixer}(\mathrm{norm}(x), c))), \qquad
    x \leftarrow x + \mathrm{drop}(\gamma_2 \cdot \mathrm{mlp}(\mathrm{norm}(x)))

The condition c, where there is one, is pooled from the registers of norm(x). No norm after the mixer is needed for it
to start near the identity: the two gammas see to that.

Wang et al., 2026, https://arxiv.org/abs/2602.08071
"""

from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.config import Spec, build
from residual_edu.errors import (
    check_conditionable,
    check_not_negative,
    check_rate,
    check_registers_inside,
    check_size,
    check_tokens,
    check_whole,
)
from residual_edu.parts.drop_path import DropPath
from residual_edu.parts.flop_count import flop_count
from residual_edu.parts.layer_scale import LayerScale
from residual_edu.parts.residual import Map, is_bypassed, pre_norm_residual
from residual_edu.parts.weight_decay import no_weight_decay


class ViT5ResidualBlock(nn.Module):
    """A sequence mixer and an MLP, each behind a norm, a gate for each channel, and a coin for each sample.

    The tokens stand as [patches, CLS, registers, padding]. Where registers are pooled, the mixer hears the pooled
    vector as ``conditioning=``; attention has no use for it and ignores it.

    Args:
        sequence_mixer_cfg: what to build (``config.build``) to mix the tokens, with its own projections;
            ``nn.Identity`` leaves the branch out, and the same for ``mlp_cfg``.
        sequence_mixer_norm_cfg: the norm before it.
        mlp_cfg: what to build to map each token by itself.
        mlp_norm_cfg: the norm before it.
        hidden_dim: number of channels, at least 1.
        layer_scale_init: where both gates start; 0 leaves LayerScale out.
        drop_path_rate: rate in [0, 1) at which samples lose a branch in training; one module flips both coins.
        register_pooling_cfg: what to build to turn (batch, registers, channels) into (batch, channels), or ``None``.
        num_registers: number of registers, at least 0; 0 switches the pooling off.
        register_start_idx: how many tokens stand before the registers: all patches, and the CLS token if there is one.
        grn_cfg: what lets the mixer's channels compete before its gate, ``GlobalResponseNorm``, or ``None``.

    Raises:
        InvalidInput: for a number out of range, a mixer that takes no conditioning where registers are pooled, an
            input of another shape, or one that ends before its registers do.
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
        check_size("hidden_dim", hidden_dim)
        check_not_negative("layer_scale_init", layer_scale_init)
        check_rate("drop_path_rate", drop_path_rate)
        check_whole("num_registers", num_registers)
        check_whole("register_start_idx", register_start_idx)
        self.hidden_dim, self.num_registers, self.register_start_idx = hidden_dim, num_registers, register_start_idx
        self.input_norm = no_weight_decay(build(sequence_mixer_norm_cfg))
        self.sequence_mixer = build(sequence_mixer_cfg)
        self.mlp_norm = no_weight_decay(build(mlp_norm_cfg))
        self.mlp = build(mlp_cfg)
        self.ls_attn = LayerScale(hidden_dim, layer_scale_init) if layer_scale_init else nn.Identity()
        self.ls_mlp = LayerScale(hidden_dim, layer_scale_init) if layer_scale_init else nn.Identity()
        self.drop_path = DropPath(drop_path_rate) if drop_path_rate else nn.Identity()
        self.grn = None if grn_cfg is None else build(grn_cfg)
        self.register_pooling = None
        if register_pooling_cfg is not None and num_registers and not is_bypassed(self.sequence_mixer):
            check_conditionable("sequence_mixer", self.sequence_mixer)
            self.register_pooling = build(register_pooling_cfg)

    def forward(
        self, x: Float[Tensor, "batch tokens channels"], condition: Tensor | None = None
    ) -> Float[Tensor, "batch tokens channels"]:
        """Add what both branches make of ``x``; ``condition`` is there for other blocks' sake and never looked at."""
        check_tokens("x", x, channels=self.hidden_dim)
        drop, competing = self.drop_path, [] if self.grn is None else [self.grn]
        pooling = self.register_pooling
        mixer = self.sequence_mixer if pooling is None else self._listening(pooling)
        x = pre_norm_residual(x, mixer, self.input_norm, [*competing, self.ls_attn, drop])
        return pre_norm_residual(x, self.mlp, self.mlp_norm, [self.ls_mlp, drop])

    def _listening(self, pooling: Map) -> Map:
        """Return the sequence mixer with what the pooled registers say."""
        return lambda tokens: self.sequence_mixer(tokens, conditioning=pooling(self._registers(tokens)))

    def _registers(self, tokens: Tensor) -> Float[Tensor, "batch registers channels"]:
        start, count = self.register_start_idx, self.num_registers
        check_registers_inside(start, count, tokens.shape[1])
        return tokens[:, start : start + count]

    def flop_count(self, num_tokens: int, inference: bool = False) -> int:
        """Return the cost for one sample of ``num_tokens``, registers and padding included; the two sums are not.

        What does not know its cost counts 0, and a branch that is left out has none.
        """
        mixing = [self.input_norm, self.sequence_mixer, self.grn, self.ls_attn]
        mapping = [self.mlp_norm, self.mlp, self.ls_mlp]
        parts = ([] if is_bypassed(self.sequence_mixer) else mixing) + ([] if is_bypassed(self.mlp) else mapping)
        pooling = 0 if self.register_pooling is None else flop_count(self.register_pooling, self.hidden_dim)
        return pooling + sum(flop_count(part, num_tokens, inference) for part in parts if part is not None)

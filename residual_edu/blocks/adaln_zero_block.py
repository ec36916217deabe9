r"""The block of diffusion transformers: a condition modulates each branch.

.. math::
    x &\leftarrow x + g_1 \cdot
        \mathrm{mixer}(\mathrm{norm}(x) \cdot (1 + s_1) + b_1, c), \\
    x &\leftarrow x + g_2 \cdot \mathrm{mlp}(\mathrm{norm}(x) \cdot (1 + s_2) + b_2)

Peebles & Xie, 2023, https://arxiv.org/abs/2212.09748
"""

from functools import partial
from typing import cast

from torch import Tensor, nn

from residual_edu.config import Spec, build, build_beside
from residual_edu.errors import InvalidInput, check_shape
from residual_edu.mixers import Attention, QKVSequenceMixer
from residual_edu.mixers.projections import Condition, Signal
from residual_edu.parts.adaln_zero import modulations, zero_projection
from residual_edu.parts.dropout import Dropout
from residual_edu.parts.layer_norm import LayerNorm
from residual_edu.parts.mlp import MLP
from residual_edu.parts.residual import Map, is_bypassed, pre_norm_residual
from residual_edu.parts.start import fill
from residual_edu.parts.weight_decay import no_weight_decay


class AdaLNZeroResidualBlock(nn.Module):
    """A sequence mixer and an MLP, each modulated and gated by a condition.

    At the start the gates are 0: the block returns ``x`` bit for bit, and only their
    rows of ``condition_proj`` get a gradient. ``nn.Identity`` leaves one branch out.

    Args:
        sequence_mixer_cfg: mixes positions, ``forward(x, *, conditioning)``, where
            conditioning is (batch, channels).
        mlp_cfg: maps each position by itself, ``forward(x)``.
        sequence_mixer_norm_cfg, mlp_norm_cfg: their norms, best without gain and bias.
        condition_norm_cfg: the norm of the condition.
        dropout_cfg: stands between each branch and its gate.
        hidden_dim: number of channels of ``x`` and of the condition.
    """

    def __init__(
        self,
        sequence_mixer_cfg: Spec,
        sequence_mixer_norm_cfg: Spec,
        mlp_cfg: Spec,
        mlp_norm_cfg: Spec,
        condition_norm_cfg: Spec,
        dropout_cfg: Spec,
        hidden_dim: int,
    ) -> None:
        super().__init__()
        self.hidden_dim = hidden_dim
        self.sequence_mixer = build(sequence_mixer_cfg)
        norm = build_beside(self.sequence_mixer, sequence_mixer_norm_cfg)
        self.sequence_norm = no_weight_decay(norm)
        self.mlp = build(mlp_cfg)
        self.mlp_norm = no_weight_decay(build_beside(self.mlp, mlp_norm_cfg))
        if is_bypassed(self.sequence_mixer) and is_bypassed(self.mlp):
            raise InvalidInput("sequence_mixer_cfg or mlp_cfg must build a branch")
        self.condition_norm = no_weight_decay(build(condition_norm_cfg))
        self.dropout = build(dropout_cfg)
        self.condition_proj = zero_projection(hidden_dim)

    @classmethod
    def standard(
        cls, dim: int, heads: int, *, dropout: float = 0.0, causal: bool = False
    ) -> "AdaLNZeroResidualBlock":
        """Return attention and an MLP with 4 * dim hidden features, as in DiT."""
        attention = partial(
            Attention, dim, heads, apply_qk_norm=False, use_rope=False, is_causal=causal
        )
        mixer = partial(QKVSequenceMixer, dim, attention, True, True)  # with biases
        mlp = partial(MLP, dim, "gelu", nn.Identity, expansion_factor=4.0, bias=True)
        norm = partial(LayerNorm, dim, elementwise_affine=False)
        return cls(mixer, norm, mlp, norm, nn.Identity, partial(Dropout, dropout), dim)

    def reset_parameters(self) -> None:
        """Set the projection of the condition to 0 again."""
        fill(cast(nn.Linear, self.condition_proj[1]), nn.init.zeros_)

    def forward(self, x: Signal, condition: Condition) -> Signal:
        """Add both branches to ``x``; positions of ``condition`` are averaged."""
        check_shape("x", x, "...", self.hidden_dim)
        c = self.condition_norm(pooled(condition))  # (batch, channels)
        mixing, mapping = modulations(self.condition_proj(c), x.ndim)
        mixer, norm = self.sequence_mixer, mixing.modulate(self.sequence_norm)
        gates: list[Map] = [self.dropout, mixing.apply_gate]
        x = pre_norm_residual(x, mixer, norm, gates, conditioning=c)
        norm, gates = mapping.modulate(self.mlp_norm), [gates[0], mapping.apply_gate]
        return pre_norm_residual(x, self.mlp, norm, gates)


def pooled(condition: Tensor) -> Tensor:
    """Return the mean over all positions of ``condition``: (batch, channels)."""
    if condition is None or 0 in condition.shape:  # the mean of nothing is NaN
        found = None if condition is None else f"shape {tuple(condition.shape)}"
        raise InvalidInput(f"condition must be given and not be empty, got {found}")
    return condition if condition.ndim == 2 else condition.flatten(1, -2).mean(dim=1)

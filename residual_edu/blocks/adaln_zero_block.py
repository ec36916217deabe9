r"""The block of diffusion transformers: two branches that a condition shifts, scales and gates.

.. math::
    x \leftarrow x + g_1 \cdot \mathrm{mixer}(\mathrm{norm}(x) \cdot (1 + s_1) + b_1, c), \qquad
    x \leftarrow x + g_2 \cdot \mathrm{mlp}(\mathrm{norm}(x) \cdot (1 + s_2) + b_2)

Peebles & Xie, 2023, https://arxiv.org/abs/2212.09748
"""

from functools import partial

from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.config import Spec, build
from residual_edu.errors import (
    check_axes,
    check_batch,
    check_conditionable,
    check_given,
    check_size,
    check_some_positions,
    check_takes,
    check_width,
)
from residual_edu.parts.adaln_zero import modulations, zero_projection
from residual_edu.parts.residual import is_bypassed, pre_norm_residual
from residual_edu.parts.weight_decay import no_weight_decay


class AdaLNZeroResidualBlock(nn.Module):
    """A sequence mixer and an MLP, each behind a norm that a condition modulates and a gate that starts at zero.

    The condition works in two ways: through the six modulations, and as ``conditioning=`` of the sequence mixer. At the
    start the block returns ``x`` bit for bit, and only the gates' rows of ``condition_proj`` have a gradient.

    Args:
        sequence_mixer_cfg: what to build (``config.build``) to mix positions: ``forward(x, *, conditioning)``;
            ``nn.Identity`` leaves the branch out, and the same for ``mlp_cfg``.
        sequence_mixer_norm_cfg: the norm before it, best one without gain and bias, since the condition gives both.
        mlp_cfg: what to build to map each position by itself.
        mlp_norm_cfg: the norm before it.
        condition_norm_cfg: the norm of the condition, or ``nn.Identity``.
        dropout_cfg: what drops from each branch before its gate: ``Dropout``, ``DropPath`` or ``nn.Identity``.
        hidden_dim: number of channels of ``x`` and of the condition, at least 1.

    Raises:
        InvalidInput: for a mixer that takes no conditioning, a condition that is missing, or a wrong shape, that of
            a branch included.
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
        check_size("hidden_dim", hidden_dim)
        self.hidden_dim = hidden_dim
        self.sequence_mixer = build(sequence_mixer_cfg)
        if not is_bypassed(self.sequence_mixer):
            check_conditionable("sequence_mixer", self.sequence_mixer)
        self.sequence_norm = no_weight_decay(build(sequence_mixer_norm_cfg))
        self.mlp = build(mlp_cfg)
        check_takes("mlp", self.mlp, "x")
        self.mlp_norm = no_weight_decay(build(mlp_norm_cfg))
        self.condition_norm = no_weight_decay(build(condition_norm_cfg))
        self.dropout = build(dropout_cfg)
        self.condition_proj = zero_projection(hidden_dim)

    def forward(
        self,
        x: Float[Tensor, "batch *space channels"],
        condition: Float[Tensor, "#batch *elsewhere channels"] | None,
    ) -> Float[Tensor, "batch *space channels"]:
        """Add what both branches make of ``x`` under ``condition``, whose own positions, if any, are averaged."""
        condition = self.condition_norm(self._pooled(x, condition))
        mixing, mapping = modulations(self.condition_proj(condition), x.ndim)
        conditioned = partial(self.sequence_mixer, conditioning=condition)
        mixer = self.sequence_mixer if is_bypassed(self.sequence_mixer) else conditioned
        x = pre_norm_residual(x, mixer, mixing.after(self.sequence_norm), [self.dropout, mixing.open])
        return pre_norm_residual(x, self.mlp, mapping.after(self.mlp_norm), [self.dropout, mapping.open])

    def _pooled(self, x: Tensor, condition: Tensor | None) -> Float[Tensor, "#batch channels"]:
        """Check both inputs and average the condition over every axis but batch and channels."""
        condition = check_given("condition", condition)
        for name, tensor in (("x", x), ("condition", condition)):
            check_axes(name, tensor, "batch", "channels")
            check_width(name, tensor, self.hidden_dim)
        check_batch("condition", condition, len(x))
        check_some_positions("condition", condition)
        return condition if condition.ndim == 2 else condition.flatten(1, -2).mean(dim=1)

r"""The block of diffusion transformers: a condition shifts, scales and gates each of its two branches.

.. math::
    x \leftarrow x + g_1 \cdot \mathrm{mixer}(\mathrm{norm}(x) \cdot (1 + s_1) + b_1, c), \qquad
    x \leftarrow x + g_2 \cdot \mathrm{mlp}(\mathrm{norm}(x) \cdot (1 + s_2) + b_2)

Peebles & Xie, 2023, https://arxiv.org/abs/2212.09748
"""

from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.calls import check_conditionable, check_takes
from residual_edu.checked import Size, checked
from residual_edu.config import Spec, build
from residual_edu.old_errors import (
    InvalidInput,
    check_axes,
    check_batch,
    check_given,
    check_width,
)
from residual_edu.parts.adaln_zero import modulations, zero_projection
from residual_edu.parts.residual import Map, is_bypassed, pre_norm_residual
from residual_edu.parts.start import fill
from residual_edu.parts.weight_decay import no_weight_decay


class AdaLNZeroResidualBlock(nn.Module):
    """A sequence mixer and an MLP, each with a norm that the condition modulates and a gate that starts at zero.

    The condition is used twice: for the six modulations, and as ``conditioning=`` of the sequence mixer. At the start
    the block returns ``x`` bit for bit, and only the gates' rows of ``condition_proj`` receive a gradient that is not
    zero.

    Args:
        sequence_mixer_cfg: what to build (``config.build``) to mix positions: ``forward(x, *, conditioning)``, where
            conditioning is (batch, channels); ``nn.Identity`` leaves the branch out.
        sequence_mixer_norm_cfg: the norm before it, preferably without gain and bias, since the condition gives both.
        mlp_cfg: what to build to map each position by itself: ``forward(x)``; ``nn.Identity`` leaves the branch out.
        mlp_norm_cfg: the norm before it, as above.
        condition_norm_cfg: the norm of the condition, or ``nn.Identity``.
        dropout_cfg: what stands between each branch and its gate: ``Dropout``, ``DropPath`` or ``nn.Identity``.
        hidden_dim: number of channels of ``x`` and of the condition, at least 1.

    Raises:
        InvalidInput: for a mixer that takes no ``conditioning=``, a condition that is missing, an input of another
            shape, or a branch whose output has another shape than ``x``.
    """

    @checked
    def __init__(
        self,
        sequence_mixer_cfg: Spec,
        sequence_mixer_norm_cfg: Spec,
        mlp_cfg: Spec,
        mlp_norm_cfg: Spec,
        condition_norm_cfg: Spec,
        dropout_cfg: Spec,
        hidden_dim: Size,
    ) -> None:
        super().__init__()
        self.hidden_dim = hidden_dim
        self.sequence_mixer = build(sequence_mixer_cfg)
        self.sequence_norm = no_weight_decay(build(sequence_mixer_norm_cfg))
        self.mlp = build(mlp_cfg)
        self.mlp_norm = no_weight_decay(build(mlp_norm_cfg))
        self.condition_norm = no_weight_decay(build(condition_norm_cfg))
        self.dropout = build(dropout_cfg)
        self.condition_proj = zero_projection(hidden_dim)
        check_branches(self.sequence_mixer, self.mlp)

    def reset_parameters(self) -> None:
        """Set the projection of the condition to 0 again."""
        fill(cast(nn.Linear, self.condition_proj[1]), nn.init.zeros_)

    def forward(
        self,
        x: Float[Tensor, "batch *space channels"],
        condition: Float[Tensor, "#batch *elsewhere channels"],
    ) -> Float[Tensor, "batch *space channels"]:
        """Add both branches' outputs to ``x``; the axes of ``condition`` between batch and channels are averaged."""
        self._check(x, condition)
        pooled = (
            condition if condition.ndim == 2 else condition.flatten(1, -2).mean(dim=1)
        )
        condition = self.condition_norm(pooled)  # (batch, channels)
        mixing, mapping = modulations(
            self.condition_proj(condition), x.ndim
        )  # one for each branch
        norm = mixing.modulate(self.sequence_norm)
        gates: list[Map] = [self.dropout, mixing.apply_gate]
        x = pre_norm_residual(
            x, self.sequence_mixer, norm, gates, conditioning=condition
        )
        return pre_norm_residual(
            x,
            self.mlp,
            mapping.modulate(self.mlp_norm),
            [self.dropout, mapping.apply_gate],
        )

    def _check(self, x: Tensor, condition: Tensor) -> None:
        check_given("condition", condition)
        for name, tensor in (("x", x), ("condition", condition)):
            check_axes(name, tensor, "batch", "channels")
            check_width(name, tensor, self.hidden_dim, self.condition_proj[1])
        check_batch("condition", condition, x.shape[0])
        if 0 in condition.shape[1:-1]:
            raise InvalidInput(
                f"condition must have at least 1 position along each axis, got shape {tuple(condition.shape)}"
            )


def check_branches(mixer: nn.Module, mlp: nn.Module) -> None:
    """Raise ``InvalidInput`` unless ``mixer`` takes a condition, if it is there, and ``mlp`` one signal."""
    if not is_bypassed(mixer):
        check_conditionable("sequence_mixer", mixer)
    check_takes("mlp", mlp, "x")

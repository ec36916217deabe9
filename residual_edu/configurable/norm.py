"""The norms of a block, built from its config: torch's own, which return what those of ``parts`` return."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.checked import checked
from residual_edu.configurable.config import GivenConfig
from residual_edu.old_errors import check_width


class BlockLayerNorm(nn.LayerNorm):
    """LayerNorm of ``d_model`` features; it has gain and bias even where ``config.bias`` is False."""

    @checked
    def __init__(self, config: GivenConfig) -> None:
        super().__init__(config.d_model, config.norm_eps)

    def forward(
        self, x: Float[Tensor, "*batch channels"]
    ) -> Float[Tensor, "*batch channels"]:
        """Normalise the last axis of ``x``; its shape and dtype are kept."""
        try:
            return torch.layer_norm(
                x, self.normalized_shape, self.weight, self.bias, self.eps
            )
        except (
            RuntimeError,
            TypeError,
        ):  # the check after torch's own: two a block and token
            check_width("x", x, self.normalized_shape[0], self)
            raise


class BlockRMSNorm(nn.RMSNorm):
    """RMSNorm of ``d_model`` features, with a gain."""

    @checked
    def __init__(self, config: GivenConfig) -> None:
        super().__init__(config.d_model, config.norm_eps)

    def forward(
        self, x: Float[Tensor, "*batch channels"]
    ) -> Float[Tensor, "*batch channels"]:
        """Normalise the last axis of ``x``; its shape and dtype are kept."""
        try:
            return torch.rms_norm(x, self.normalized_shape, self.weight, self.eps)
        except (
            RuntimeError,
            TypeError,
        ):  # the check after torch's own: two a block and token
            check_width("x", x, self.normalized_shape[0], self)
            raise

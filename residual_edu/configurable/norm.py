"""The norms of a block, built from its config: torch's own, which return what those of ``parts`` return."""

from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.configurable.config import BlockConfig
from residual_edu.errors import check_width


class BlockLayerNorm(nn.LayerNorm):
    """LayerNorm of ``d_model`` features; it has gain and bias even where ``config.bias`` is False."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config.d_model, config.norm_eps)

    def forward(self, x: Float[Tensor, "*batch channels"]) -> Float[Tensor, "*batch channels"]:
        """Normalise the last axis of ``x``; its shape and dtype are kept."""
        check_width("x", x, self.normalized_shape[0], self)
        return super().forward(x)


class BlockRMSNorm(nn.RMSNorm):
    """RMSNorm of ``d_model`` features, with a gain."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config.d_model, config.norm_eps)

    def forward(self, x: Float[Tensor, "*batch channels"]) -> Float[Tensor, "*batch channels"]:
        """Normalise the last axis of ``x``; its shape and dtype are kept."""
        check_width("x", x, self.normalized_shape[0], self)
        return super().forward(x)

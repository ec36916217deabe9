"""The norms of a block, built from its config: torch's own, which return what those of ``parts`` return."""

from torch import nn

from residual_edu.configurable.config import BlockConfig


class BlockLayerNorm(nn.LayerNorm):
    """LayerNorm of ``d_model`` features; it has gain and bias even where ``config.bias`` is False."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config.d_model, config.norm_eps)


class BlockRMSNorm(nn.RMSNorm):
    """RMSNorm of ``d_model`` features, with a gain."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config.d_model, config.norm_eps)

"""The norms of a block, built from its config: torch's own, whose numbers are those of ``parts``."""

from torch import nn

from residual_edu.configurable.config import BlockConfig


class BlockLayerNorm(nn.LayerNorm):
    """LayerNorm as wide as the stream, with gain and bias whether the linear maps have a bias or not."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config.d_model, config.norm_eps)


class BlockRMSNorm(nn.RMSNorm):
    """RMSNorm as wide as the stream."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config.d_model, config.norm_eps)

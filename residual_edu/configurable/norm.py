"""The norms of a block, built from its config: torch's own."""

from torch import nn

from residual_edu.configurable.config import BlockConfig
from residual_edu.configurable.registry import norm_registry


@norm_registry.register("layer_norm")
class BlockLayerNorm(nn.LayerNorm):
    """LayerNorm of ``d_model`` features, with a bias whatever ``config.bias`` is."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config.d_model, config.norm_eps)


@norm_registry.register("rms_norm")
class BlockRMSNorm(nn.RMSNorm):
    """RMSNorm of ``d_model`` features, with a gain."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config.d_model, config.norm_eps)

"""A block that is assembled from names, under which its classes are registered."""

from residual_edu.configurable.attention import (
    GQA,
    MHA,
    MLA,
    AttentionBase,
    NoAttention,
    SlidingWindowGQA,
    repeat_heads,
)
from residual_edu.configurable.block import ConfigurableBlock
from residual_edu.configurable.cache import Cache, ModelCache, cache_length, extend
from residual_edu.configurable.config import BlockConfig, ModelConfig
from residual_edu.configurable.feedforward import (
    FFNBase,
    GatedFFN,
    GatedReLU2FFN,
    ReLU2FFN,
    StandardFFN,
)
from residual_edu.configurable.norm import BlockLayerNorm, BlockRMSNorm
from residual_edu.configurable.position import ALiBi, PositionBase, RoPE, Sinusoidal
from residual_edu.configurable.registry import (
    Registry,
    attention_registry,
    ffn_registry,
    norm_registry,
    position_registry,
)

__all__ = ["ALiBi", "AttentionBase", "BlockConfig", "BlockLayerNorm", "BlockRMSNorm"]
__all__ += ["Cache", "ConfigurableBlock", "FFNBase", "GQA", "GatedFFN", "GatedReLU2FFN"]
__all__ += ["MHA", "MLA", "ModelCache", "ModelConfig", "NoAttention", "PositionBase"]
__all__ += ["ReLU2FFN", "Registry", "RoPE", "Sinusoidal", "SlidingWindowGQA"]
__all__ += ["StandardFFN", "attention_registry", "cache_length", "extend"]
__all__ += ["ffn_registry", "norm_registry", "position_registry", "repeat_heads"]

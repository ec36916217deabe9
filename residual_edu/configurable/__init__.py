"""A block that is assembled from names. This file lists the names that are built in.

Another class is registered in the same way, in any file or cell, and can be named in a config at once.
"""

from torch import nn

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

attention_registry.register("mha", MHA)
attention_registry.register("gqa", GQA)
attention_registry.register(
    "sliding_window_gqa", SlidingWindowGQA
)  # "sliding_window" is an alias of it
attention_registry.register("mla", MLA)
attention_registry.register("none", NoAttention)

ffn_registry.register("standard", StandardFFN)
ffn_registry.register("gated", GatedFFN)
ffn_registry.register("relu2", ReLU2FFN)
ffn_registry.register("gated_relu2", GatedReLU2FFN)
ffn_registry.register("none", nn.Identity)

norm_registry.register("layer_norm", BlockLayerNorm)
norm_registry.register("rms_norm", BlockRMSNorm)

position_registry.register("rope", RoPE)
position_registry.register("sinusoidal", Sinusoidal)
position_registry.register("alibi", ALiBi)
position_registry.register("none", PositionBase)

__all__ = [
    "ALiBi",
    "AttentionBase",
    "BlockConfig",
    "BlockLayerNorm",
    "BlockRMSNorm",
    "Cache",
    "ConfigurableBlock",
    "FFNBase",
    "GQA",
    "GatedFFN",
    "GatedReLU2FFN",
    "MHA",
    "MLA",
    "ModelCache",
    "ModelConfig",
    "NoAttention",
    "PositionBase",
    "ReLU2FFN",
    "Registry",
    "RoPE",
    "Sinusoidal",
    "SlidingWindowGQA",
    "StandardFFN",
    "attention_registry",
    "cache_length",
    "extend",
    "ffn_registry",
    "norm_registry",
    "position_registry",
    "repeat_heads",
]

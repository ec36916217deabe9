"""What stands on, around and after a layer: one idea, one file, one test file."""

from residual_edu.parts.layer_norm import LayerNorm, LayerNormalization, layer_norm
from residual_edu.parts.mlp import SimpleFeedForward
from residual_edu.parts.residual import ResidualConnection, is_bypassed, post_norm_residual, pre_norm_residual
from residual_edu.parts.rms_norm import RMSNorm, rms_norm

__all__ = [
    "LayerNorm",
    "LayerNormalization",
    "RMSNorm",
    "ResidualConnection",
    "SimpleFeedForward",
    "is_bypassed",
    "layer_norm",
    "post_norm_residual",
    "pre_norm_residual",
    "rms_norm",
]

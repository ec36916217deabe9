"""What stands on, around and after a layer: one idea, one file, one test file."""

from residual_edu.parts.adaln_zero import Modulation, modulations, zero_projection
from residual_edu.parts.drop_path import DropPath, drop_path, drop_path_schedule
from residual_edu.parts.dropout import Dropout, dropout
from residual_edu.parts.layer_norm import LayerNorm, LayerNormalization, layer_norm
from residual_edu.parts.layer_scale import LayerScale
from residual_edu.parts.mlp import SimpleFeedForward
from residual_edu.parts.residual import ResidualConnection, is_bypassed, post_norm_residual, pre_norm_residual
from residual_edu.parts.rms_norm import RMSNorm, rms_norm
from residual_edu.parts.weight_decay import no_weight_decay, parameter_groups

__all__ = [
    "DropPath",
    "Dropout",
    "LayerNorm",
    "LayerNormalization",
    "LayerScale",
    "Modulation",
    "RMSNorm",
    "ResidualConnection",
    "SimpleFeedForward",
    "drop_path",
    "drop_path_schedule",
    "dropout",
    "is_bypassed",
    "layer_norm",
    "modulations",
    "no_weight_decay",
    "parameter_groups",
    "post_norm_residual",
    "pre_norm_residual",
    "rms_norm",
    "zero_projection",
]

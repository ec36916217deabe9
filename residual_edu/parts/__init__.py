"""The pieces of a residual block: norms, gates, attention, ...; one idea a file."""

from residual_edu.parts.adaln_zero import Modulation, modulations, zero_projection
from residual_edu.parts.attention import (
    attention,
    attention_mask,
    fused_attention,
    merge_heads,
    split_heads,
)
from residual_edu.parts.causal_conv import CausalConv1D
from residual_edu.parts.drop_path import DropPath, drop_path, drop_path_schedule
from residual_edu.parts.dropout import Dropout, dropout
from residual_edu.parts.global_response_norm import (
    GlobalResponseNorm,
    global_response_norm,
)
from residual_edu.parts.layer_norm import LayerNorm, LayerNormalization, layer_norm
from residual_edu.parts.layer_scale import LayerScale
from residual_edu.parts.mlp import MLP, SimpleFeedForward
from residual_edu.parts.patches import Patchify, Unpatchify
from residual_edu.parts.position import (
    alibi_bias,
    alibi_slopes,
    rotary_angles,
    rotary_cos_sin,
    rotate,
    rotate_by,
    sinusoidal,
)
from residual_edu.parts.position_embedding import PositionEmbedding, PositionEmbeddingND
from residual_edu.parts.qk_norm import L2Norm, PerHeadRMSNorm
from residual_edu.parts.residual import (
    ResidualConnection,
    is_bypassed,
    post_norm_residual,
    pre_norm_residual,
)
from residual_edu.parts.rms_norm import RMSNorm, rms_norm
from residual_edu.parts.start import reset_parameters
from residual_edu.parts.weight_decay import no_weight_decay, parameter_groups

__all__ = ["CausalConv1D", "DropPath", "Dropout", "GlobalResponseNorm", "L2Norm"]
__all__ += ["LayerNorm", "LayerNormalization", "LayerScale", "MLP", "Modulation"]
__all__ += ["Patchify", "PerHeadRMSNorm", "PositionEmbedding", "PositionEmbeddingND"]
__all__ += ["RMSNorm", "ResidualConnection", "SimpleFeedForward", "Unpatchify"]
__all__ += ["alibi_bias", "alibi_slopes", "attention", "attention_mask", "drop_path"]
__all__ += ["drop_path_schedule", "dropout", "fused_attention", "global_response_norm"]
__all__ += ["is_bypassed", "layer_norm", "merge_heads", "modulations"]
__all__ += ["no_weight_decay", "parameter_groups", "post_norm_residual"]
__all__ += ["pre_norm_residual", "reset_parameters", "rms_norm", "rotary_angles"]
__all__ += ["rotary_cos_sin", "rotate", "rotate_by", "sinusoidal", "split_heads"]
__all__ += ["zero_projection"]

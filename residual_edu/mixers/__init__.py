"""Mixers let positions exchange information; none takes a mask for padding."""

from residual_edu.mixers.attention import Attention
from residual_edu.mixers.ckconv import CKConv, CKConvND
from residual_edu.mixers.film import KernelFiLMGenerator
from residual_edu.mixers.hyena import Hyena
from residual_edu.mixers.implicit_kernel import (
    SIRENKernel,
    SIRENKernelND,
    SIRENPositionalEmbedding,
    SIRENPositionalEmbeddingND,
    position_grid,
)
from residual_edu.mixers.kernel_mask import (
    ExponentialModulation,
    ExponentialModulationND,
    GaussianModulation,
    GaussianModulationND,
)
from residual_edu.mixers.long_convolution import convolution_matrix, long_convolution
from residual_edu.mixers.mamba import Mamba, MambaLayer
from residual_edu.mixers.projections import QKVConditionMixer, QKVSequenceMixer
from residual_edu.mixers.registers import RegisterCompressConcat, RegisterPooling
from residual_edu.mixers.selective_scan import chunked_scan, selective_scan
from residual_edu.mixers.vit5_attention import ViT5Attention
from residual_edu.mixers.vit5_hyena import ViT5HyenaAdapter

__all__ = ["Attention", "CKConv", "CKConvND", "ExponentialModulation"]
__all__ += ["ExponentialModulationND", "GaussianModulation", "GaussianModulationND"]
__all__ += ["Hyena", "KernelFiLMGenerator", "Mamba", "MambaLayer", "QKVConditionMixer"]
__all__ += ["QKVSequenceMixer", "RegisterCompressConcat", "RegisterPooling"]
__all__ += ["SIRENKernel", "SIRENKernelND", "SIRENPositionalEmbedding"]
__all__ += ["SIRENPositionalEmbeddingND", "ViT5Attention", "ViT5HyenaAdapter"]
__all__ += ["chunked_scan", "convolution_matrix", "long_convolution", "position_grid"]
__all__ += ["selective_scan"]

"""Whole networks: an embedding, a stack of blocks, a readout; text generation."""

from residual_edu.networks.denoiser import Denoiser
from residual_edu.networks.generation import generate
from residual_edu.networks.language_model import LanguageModel
from residual_edu.networks.residual_network import ClassificationResNet, ResidualNetwork
from residual_edu.networks.vit5 import ViT5ClassificationNet

__all__ = ["ClassificationResNet", "Denoiser", "LanguageModel", "ResidualNetwork"]
__all__ += ["ViT5ClassificationNet", "generate"]

"""Whole networks: an embedding, a stack of blocks, a way out."""

from residual_edu.networks.denoiser import Denoiser

__all__ = ["Denoiser"]

"""Branches around a residual stream: no maths of their own, only calls to ``parts``."""

from residual_edu.blocks.adaln_zero_block import AdaLNZeroResidualBlock
from residual_edu.blocks.residual_block import ResidualBlock
from residual_edu.blocks.vit5_block import ViT5ResidualBlock

__all__ = ["AdaLNZeroResidualBlock", "ResidualBlock", "ViT5ResidualBlock"]

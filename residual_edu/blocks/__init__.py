"""Lists of branches around one stream; a block holds no maths of its own, only calls to ``parts``."""

from residual_edu.blocks.adaln_zero_block import AdaLNZeroResidualBlock

__all__ = ["AdaLNZeroResidualBlock"]

r"""Causal convolution: an output depends on its own position and earlier ones alone.

.. math:: y_i = b + \sum_{m=0}^{K-1} w_{K-1-m} \, x_{i - m d}

van den Oord et al., 2016, https://arxiv.org/abs/1609.03499
"""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from residual_edu.parts.flop_count import Shape, count_positions


class CausalConv1D(nn.Conv1d):
    """``nn.Conv1d`` with all of its padding, zeros, before the first position.

    Args:
        in_channels, out_channels, stride, groups, bias: as in ``nn.Conv1d``.
        kernel_size: number of taps K, at least 1.
        dilation: distance d between taps, in positions, at least 1.
        is_causal: if False, half of the padding follows the last position.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        is_causal: bool = True,
    ) -> None:
        sizes = in_channels, out_channels, kernel_size, stride
        super().__init__(*sizes, dilation=dilation, groups=groups, bias=bias)
        self.is_causal = is_causal

    def forward(
        self, x: Float[Tensor, "*batch channels time"]
    ) -> Float[Tensor, "*batch out_channels steps"]:
        """Convolve the last axis of ``x``; ``ceil(time / stride)`` steps are left."""
        padding = (self.kernel_size[0] - 1) * self.dilation[0]
        before = padding if self.is_causal else padding // 2
        return super().forward(functional.pad(x, (before, padding - before)))

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the number of operations for one sample of ``shape`` positions."""
        steps = -(-count_positions(shape) // self.stride[0])  # rounded up
        return convolution_flops(self, steps)


def convolution_flops(conv: nn.Conv1d | nn.Conv2d | nn.Conv3d, outputs: int) -> int:
    """Return the operations for ``outputs`` positions: 2 for each weight."""
    return 2 * outputs * conv.weight.numel()

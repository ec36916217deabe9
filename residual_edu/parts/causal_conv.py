r"""Causal convolution: the output at a position depends on that position and earlier ones alone.

.. math:: y_i = b + \sum_{m=0}^{K-1} w_{K-1-m} \, x_{i - m d}

van den Oord et al., 2016, https://arxiv.org/abs/1609.03499
"""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from residual_edu.checked import Flag, Size, checked
from residual_edu.old_errors import (
    InvalidInput,
    check_axes,
    check_divisible,
    check_shape,
)
from residual_edu.parts.flop_count import Shape, count_positions


class CausalConv1D(nn.Conv1d):
    """``nn.Conv1d`` with all of its padding, zeros, before the first position.

    As in ``nn.Conv1d`` the channels are the second-to-last axis; ``groups=in_channels`` gives each channel a kernel of
    its own. With a stride of 1 the output is as long as the input.

    Args:
        in_channels: number of input channels, at least 1.
        out_channels: number of output channels, at least 1.
        kernel_size: number of taps K, at least 1.
        stride: step between outputs, at least 1.
        dilation: distance d between taps, in positions, at least 1.
        groups: number of groups of channels; an output depends on the inputs of its own group alone. Divides both
            numbers of channels.
        bias: whether to learn a bias.
        is_causal: if False, half of the padding follows the last position, as in torch's ``padding="same"``.

    Raises:
        InvalidInput: for a size out of range, groups that do not divide the channels, or an integer input.
    """

    @checked
    def __init__(
        self,
        in_channels: Size,
        out_channels: Size,
        kernel_size: Size,
        stride: Size = 1,
        dilation: Size = 1,
        groups: Size = 1,
        bias: Flag = True,
        is_causal: Flag = True,
    ) -> None:
        check_groups(groups, in_channels=in_channels, out_channels=out_channels)
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            dilation=dilation,
            groups=groups,
            bias=bias,
        )
        self.is_causal = is_causal

    def forward(
        self, x: Float[Tensor, "*batch channels time"]
    ) -> Float[Tensor, "*batch out_channels steps"]:
        """Convolve the last axis of ``x``; ``ceil(time / stride)`` steps are left."""
        check_input(x, self)
        padding = (self.kernel_size[0] - 1) * self.dilation[0]
        before = padding if self.is_causal else padding // 2
        return super().forward(functional.pad(x, (before, padding - before)))

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the number of operations for one sample of ``shape`` positions."""
        return convolution_flops(
            self, -(-count_positions(shape) // self.stride[0])
        )  # -(-a // b) rounds a / b up


def convolution_flops(
    convolution: nn.Conv1d | nn.Conv2d | nn.Conv3d, outputs: int
) -> int:
    """Return the number of operations for ``outputs`` output positions: a product and a sum for each weight."""
    return 2 * outputs * convolution.weight.numel()


def check_groups(groups: int, **channels: int) -> None:
    """Raise ``InvalidInput`` unless ``groups`` divide all numbers of ``channels``."""
    for name, number in channels.items():
        check_divisible(name, number, groups, "groups")


def check_input(x: Tensor, convolution: nn.Conv1d) -> None:
    """Raise ``InvalidInput`` unless ``x`` is (channels, time), or (batch, channels, time), and fits ``convolution``."""
    check_axes("x", x, "channels", "time")
    check_shape(
        "x", x, *x.shape[:-2], convolution.in_channels, "time", layer=convolution
    )
    if x.ndim > 3:
        raise InvalidInput(
            f"x must have at most 1 axis before its channels, got shape {tuple(x.shape)}"
        )

r"""The causal convolution: a short one that hears its own position and earlier ones alone.

.. math:: y_i = b + \sum_{m=0}^{K-1} w_{K-1-m} \, x_{i - m d}

van den Oord et al., 2016, https://arxiv.org/abs/1609.03499
"""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from residual_edu.errors import check_divisible, check_floating, check_size
from residual_edu.parts.flop_count import Shape, count_positions


class CausalConv1D(nn.Conv1d):
    """``nn.Conv1d`` with its zeros before the start, so that no position hears a later one.

    Channels stand on the axis before the last one, as in ``nn.Conv1d``; ``groups=in_channels`` gives each its own
    kernel. With a stride of 1 the length stays.

    Args:
        in_channels: number of channels in, at least 1.
        out_channels: number of channels out, at least 1.
        kernel_size: number of taps, at least 1.
        stride: every how many positions there is an output, at least 1.
        dilation: how far apart the taps stand, at least 1.
        groups: into how many parts the channels fall that do not hear each other; it divides both numbers of channels.
        bias: whether a bias is learned.
        is_causal: if not, the zeros stand half before the start and half beyond the end, as torch's ``"same"`` has it.

    Raises:
        InvalidInput: for a size out of range, groups that do not divide the channels, or an integer input.
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
        sizes = {"in_channels": in_channels, "out_channels": out_channels, "kernel_size": kernel_size}
        for name, size in {**sizes, "stride": stride, "dilation": dilation, "groups": groups}.items():
            check_size(name, size)
        check_divisible("in_channels", in_channels, groups, "groups")
        check_divisible("out_channels", out_channels, groups, "groups")
        super().__init__(
            in_channels, out_channels, kernel_size, stride=stride, dilation=dilation, groups=groups, bias=bias
        )
        self.is_causal = is_causal

    def forward(self, x: Float[Tensor, "*batch channels time"]) -> Float[Tensor, "*batch out_channels steps"]:
        """Convolve the last axis of ``x``."""
        check_floating("x", x)
        reach = (self.kernel_size[0] - 1) * self.dilation[0]
        before = reach if self.is_causal else reach // 2
        return super().forward(functional.pad(x, (before, reach - before)))

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost for one sample of ``shape`` positions."""
        return convolution_flops(self, -(-count_positions(shape) // self.stride[0]))


def convolution_flops(convolution: nn.Conv1d | nn.Conv2d | nn.Conv3d, outputs: int) -> int:
    """Return the cost of a convolution of torch's that gives so many ``outputs``: a product and a sum for each tap."""
    return 2 * outputs * convolution.weight.numel()

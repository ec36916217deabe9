import math

import pytest
import torch
from torch import nn

from residual_edu import CausalConv1D
from tests.library.helpers import agree

WAYS = [{}, {"dilation": 3}, {"groups": 2, "bias": False}, {"stride": 2}, {"kernel_size": 1}, {"kernel_size": 4}]


def make(**changes):
    return CausalConv1D(**({"in_channels": 4, "out_channels": 6, "kernel_size": 3} | changes)).double()


@pytest.mark.parametrize("way", WAYS)
def test_it_is_the_start_of_torchs_with_padding_on_both_sides(way):
    conv, x = make(**way), torch.randn(2, 4, 9, dtype=torch.float64, requires_grad=True)
    padding = (conv.kernel_size[0] - 1) * conv.dilation[0]
    both = nn.functional.conv1d(x, conv.weight, conv.bias, conv.stride, padding, conv.dilation, conv.groups)
    agree(conv(x), both[..., : math.ceil(9 / conv.stride[0])], [x, *conv.parameters()], 1e-12)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("kernel_size", [1, 4, 5])
def test_not_causal_it_is_torchs_same_padding(kernel_size):
    conv = make(kernel_size=kernel_size, is_causal=False)
    torchs = nn.Conv1d(4, 6, kernel_size, padding="same").double()
    torchs.load_state_dict(conv.state_dict())
    x = torch.randn(2, 4, 9, dtype=torch.float64)
    torch.testing.assert_close(conv(x), torchs(x))

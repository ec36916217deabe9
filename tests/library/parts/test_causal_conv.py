import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from residual_edu import CausalConv1D
from tests.library.agree import agree

WAYS = [{}, {"dilation": 3}, {"groups": 2, "bias": False}, {"stride": 2}, {"kernel_size": 1}, {"kernel_size": 4}]


def make(**changes):
    return CausalConv1D(**({"in_channels": 4, "out_channels": 6, "kernel_size": 3} | changes)).double()


@pytest.mark.parametrize("way", WAYS)
def test_the_definition(way):
    conv, x = make(**way), torch.randn(2, 4, 9, dtype=torch.float64, requires_grad=True)
    w, taps, share = conv.weight, conv.kernel_size[0], 4 // conv.groups
    rows = []
    for i in range(0, 9, conv.stride[0]):
        total = torch.zeros(2, 6, dtype=torch.float64) + (0 if conv.bias is None else conv.bias)
        for m in range(taps):
            j = i - m * conv.dilation[0]
            if j >= 0:
                parts = [x[:, g * share : (g + 1) * share, j] for g in range(conv.groups)]
                blocks = w[:, :, taps - 1 - m].chunk(conv.groups)
                total = total + torch.cat([part @ block.T for part, block in zip(parts, blocks, strict=True)], dim=1)
        rows.append(total)
    agree(conv(x), torch.stack(rows, dim=-1), [x, *conv.parameters()], 1e-7)


def test_no_output_depends_on_a_later_input():
    conv, x = make(dilation=2), torch.randn(1, 4, 9, dtype=torch.float64)
    changed = x.clone()
    changed[..., 5:] += 1.0
    assert conv(x)[..., :5].equal(conv(changed)[..., :5]) and (conv(x) != conv(changed))[..., 5].all()


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("kernel_size", [1, 4, 5])
def test_not_causal_it_is_torchs_same_padding(kernel_size):
    conv = make(kernel_size=kernel_size, is_causal=False)
    torchs = nn.Conv1d(4, 6, kernel_size, padding="same").double()
    torchs.load_state_dict(conv.state_dict())
    x = torch.randn(2, 4, 9, dtype=torch.float64)
    torch.testing.assert_close(conv(x), torchs(x))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("length", [9, 10])
def test_operations_are_those_that_torch_counts(way, length):
    conv = make(**way)
    with FlopCounterMode(display=False) as counter:
        conv(torch.randn(1, 4, length, dtype=torch.float64))
    assert conv.flop_count(length) == counter.get_total_flops()

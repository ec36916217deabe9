import re

import pytest
import torch
from torch import nn

from residual_edu import CausalConv1D, errors
from residual_edu.errors import InvalidInput

pytestmark = pytest.mark.usefixtures("as_installed")  # a user meets the message, not the type checker


def refuses(message, check, *arguments):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        check(*arguments)


def test_one_for_each_axis():
    errors.check_one_per_axis("n", [1, 2], 2)
    message = "n must be one for all, or a list with one for each of 2 axes, got [1]"
    refuses(message, errors.check_one_per_axis, "n", [1], 2)


def test_a_condition():
    errors.check_condition("c", torch.zeros(2, 3), 3)
    refuses("c must be (batch, channels), got shape (3,)", errors.check_condition, "c", torch.zeros(3), 3)
    message = "c must have 3 features on its last axis, got shape (2, 4)"
    refuses(message, errors.check_condition, "c", torch.zeros(2, 4), 3)


def test_a_kernel():
    x = torch.zeros(2, 4, 5, 3)
    errors.check_kernel(torch.zeros(1, 7, 5, 3), x, [False, True])
    errors.check_kernel(torch.zeros(2, 7, 9, 3), x, [False, False])
    message = "a circular kernel must be no longer than its axis, 5, got 6 taps"
    refuses(message, errors.check_kernel, torch.zeros(1, 7, 6, 3), x, [False, True])
    message = "kernel must hold 1 kernel for all, or one for each of 2 samples, got 3"
    refuses(message, errors.check_kernel, torch.zeros(3, 7, 5, 3), x, [False, False])
    message = "kernel must have shape (batch, height, width, 3), got (1, 7, 3)"
    refuses(message, errors.check_kernel, torch.zeros(1, 7, 3), x, [False, False])


def test_a_grid_fits_its_paddings():
    for grid_type in ("single", None):
        errors.check_grid_type(grid_type, ["circular", "zero"])
    errors.check_grid_type("double", ["zero"])
    with pytest.raises(InvalidInput, match="^grid_type must be 'single' for a circular axis"):
        errors.check_grid_type("double", ["zero", "circular"])


def test_causal_axes():
    errors.check_causal_axes(1, ["zero"])
    message = "is_causal needs an order in time, so data_dim must be 1, got 2"
    refuses(message, errors.check_causal_axes, 2, ["zero", "zero"])
    message = "is_causal needs fft_padding 'zero': round a circle the future is the past, got 'circular'"
    refuses(message, errors.check_causal_axes, 1, ["circular"])


def test_a_kind_of_module():
    module = nn.Linear(1, 1)
    assert errors.check_kind("cfg", module, nn.Linear) is module
    refuses("cfg must build a Linear, got Identity", errors.check_kind, "cfg", nn.Identity(), nn.Linear)


def test_short_convolutions():
    for module in (nn.Conv1d(1, 1, 1), nn.Conv2d(1, 1, 1), nn.Conv3d(1, 1, 1), CausalConv1D(1, 1, 1), nn.Identity()):
        assert errors.check_short_convolution(module) is module
    message = "short_conv must be an nn.Conv1d, 2d, 3d, a CausalConv1D or nn.Identity, got ConvTranspose1d"
    refuses(message, errors.check_short_convolution, nn.ConvTranspose1d(1, 1, 1))


def test_channels_of_a_short_convolution():
    x = torch.zeros(2, 7, 6)
    errors.check_short_channels(nn.Conv1d(6, 6, 1), x)
    message = "short_conv must have 6 channels in and out (query, key, value), got (6, 2)"
    refuses(message, errors.check_short_channels, nn.Conv1d(6, 2, 1), x)
    message = "short_conv must have as many axes as the signal, 1, got 2"
    refuses(message, errors.check_short_channels, nn.Conv2d(6, 6, 1), x)


def test_positions_kept():
    errors.check_short_kept(torch.zeros(2, 7, 6), torch.zeros(2, 7, 6))
    message = "short_conv must keep all positions, (7,), got (5,); pad it, stride 1"
    refuses(message, errors.check_short_kept, torch.zeros(2, 7, 6), torch.zeros(2, 5, 6))


def test_who_hears_the_future():
    errors.check_hears_no_future("norm", nn.Identity(), False)
    message = "norm, a Identity, hears later positions, but global_conv is causal; use a causal one"
    refuses(message, errors.check_hears_no_future, "norm", nn.Identity(), True)

"""What a long convolution cannot use is refused, in words that name it."""

from functools import partial

import pytest
import torch
from torch import nn

from residual_edu import CKConv, InvalidInput, KernelFiLMGenerator, SIRENKernel

pytestmark = pytest.mark.usefixtures("as_installed")


def make(film_cfg=None):
    kernel = partial(SIRENKernel, 4, 1, 6, 3, 6, 5.0, 8, True, film_cfg=film_cfg)
    return CKConv(1, 4, kernel, nn.Identity, "double", "zero").double()


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"data_dim": 4}, "data_dim must be 1, 2 or 3 (text, images, volumes), got 4"),
        ({"hidden_dim": 0}, "hidden_dim must be at least 1, got 0"),
        ({"hidden_dim": 3}, "kernel's out_dim must be 3, hidden_dim, got 4"),
        ({"data_dim": 2}, "kernel's data_dim must be 2, as many axes as here, got 1"),
        ({"grid_type": "triple"}, "grid_type must be one of 'double', 'single', got 'triple'"),
        ({"fft_padding": "same"}, "fft_padding must be one of 'zero', 'circular', got 'same'"),
        ({"fft_padding": "causal"}, "fft_padding must be one of 'zero', 'circular', got 'causal'"),
        (
            {"fft_padding": ["zero", "zero"]},
            "fft_padding must be one for all, or a list with one for each of 1 axes, got ['zero', 'zero']",
        ),
        (
            {"fft_padding": "circular"},
            "grid_type must be 'single' for a circular axis: 'double' gives 2 T - 1 taps, and round an axis of T "
            "there are T; None chooses for each axis",
        ),
        (
            {"data_dim": 2, "is_causal": True},
            "is_causal needs an order in time, so data_dim must be 1, got 2",
        ),
        (
            {"grid_type": "single", "fft_padding": "circular", "is_causal": True},
            "is_causal needs fft_padding 'zero': round a circle the future is the past, got 'circular'",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(changes, message):
    kernel = partial(SIRENKernel, 4, 1, 6, 3, 6, 5.0, 8, True)
    given = {
        "data_dim": 1,
        "hidden_dim": 4,
        "kernel_cfg": kernel,
        "mask_cfg": nn.Identity,
        "grid_type": "double",
        "fft_padding": "zero",
    }
    with pytest.raises(InvalidInput) as refusal:
        CKConv(**(given | changes))
    assert str(refusal.value) == message


@pytest.mark.parametrize("shape", [(2, 6, 3), (2, 6), (2, 3, 3, 4), (2, 0, 4)])
def test_signals_of_another_shape_are_refused(shape):
    with pytest.raises(InvalidInput) as refusal:
        make()(torch.zeros(shape).double())
    assert str(refusal.value) == f"x must have shape (batch, positions, 4), got {shape}"


def test_more_that_is_refused():
    bent = make(partial(KernelFiLMGenerator, 5, 6, 2))
    with pytest.raises(InvalidInput, match="^x must be floating point, got torch.int64"):
        make()(torch.zeros(2, 6, 4, dtype=torch.int64))
    with pytest.raises(InvalidInput, match="^kernel must hold 1 kernel for all, or one for each of 2 samples, got 3$"):
        bent(torch.zeros(2, 6, 4).double(), conditioning=torch.zeros(3, 5).double())
    with pytest.raises(InvalidInput, match="^conditioning must have 5 features on its last axis"):
        bent(torch.zeros(2, 6, 4).double(), conditioning=torch.zeros(2, 4).double())
    with pytest.raises(
        InvalidInput, match=r"^shape must be one for all, or a list with one for each of 1 axes, got \[3"
    ):
        make().flop_count((3, 4))

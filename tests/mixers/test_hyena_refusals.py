"""What a Hyena cannot use is refused, in words that name it."""

from functools import partial

import pytest
import torch
from torch import nn

from residual_edu import CausalConv1D, CKConv, Hyena, InvalidInput, SIRENKernel

pytestmark = pytest.mark.usefixtures("as_installed")


def long_conv(is_causal=False):
    kernel = partial(SIRENKernel, 4, 1, 6, 3, 6, 5.0, 8, True)
    return partial(CKConv, 1, 4, kernel, nn.Identity, "double", "zero", is_causal)


def make(is_causal=False, **changes):
    parts = {
        "global_conv_cfg": long_conv(is_causal),
        "short_conv_cfg": nn.Identity,
        "gate_nonlinear_cfg": nn.SiLU,
        "pixelhyena_norm_cfg": nn.Identity,
        "qk_norm_cfg": None,
    }
    return Hyena(**(parts | changes))


def signals(length):
    return [torch.zeros(2, length, 4) for _ in range(3)]


AHEAD = "hears later positions, but global_conv is causal; use a causal one"


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            {"short_conv_cfg": partial(nn.Linear, 12, 12)},
            "short_conv must be an nn.Conv1d, 2d, 3d, a CausalConv1D or nn.Identity, got Linear",
        ),
        (
            {"global_conv_cfg": nn.Identity},
            "global_conv must take (x, conditioning=), Identity.forward takes (input)",
        ),
        (
            {"global_conv_cfg": long_conv(is_causal=True), "short_conv_cfg": partial(nn.Conv1d, 12, 12, 3, padding=1)},
            f"short_conv, a Conv1d, {AHEAD}",
        ),
        (
            {"is_causal": True, "short_conv_cfg": partial(CausalConv1D, 12, 12, 3, is_causal=False)},
            f"short_conv, a CausalConv1D, {AHEAD}",
        ),
        (
            {"is_causal": True, "pixelhyena_norm_cfg": partial(nn.GroupNorm, 2, 4)},
            f"pixelhyena_norm, a GroupNorm, {AHEAD}",
        ),
    ],
)
def test_parts_that_do_not_go_together_are_refused(changes, message):
    with pytest.raises(InvalidInput) as refusal:
        make(**changes)
    assert str(refusal.value).split("; wrap")[0] == message


@pytest.mark.parametrize(
    "short, message",
    [
        (partial(nn.Conv1d, 12, 12, 3), "short_conv must keep all positions, (7,), got (5,); pad it, stride 1"),
        (
            partial(nn.Conv1d, 12, 12, 2, padding=1),
            "short_conv must keep all positions, (7,), got (8,); pad it, stride 1",
        ),
        (
            partial(CausalConv1D, 12, 12, 3, stride=2),
            "short_conv must keep all positions, (7,), got (4,); pad it, stride 1",
        ),
        (partial(nn.Conv1d, 4, 4, 1), "short_conv must have 12 channels in and out (query, key, value), got (4, 4)"),
        (partial(nn.Conv1d, 12, 4, 1), "short_conv must have 12 channels in and out (query, key, value), got (12, 4)"),
        (partial(nn.Conv2d, 12, 12, 1), "short_conv must have as many axes as the signal, 1, got 2"),
    ],
)
def test_short_convolutions_that_do_not_fit_the_signal_are_refused(short, message):
    with pytest.raises(InvalidInput) as refusal:
        make(short_conv_cfg=short)(*signals(7))
    assert str(refusal.value) == message


def test_signals_of_different_shapes_are_refused():
    query, key, value = signals(7)
    with pytest.raises(InvalidInput, match=r"^key must have the shape of query, \(2, 7, 4\), got \(2, 6, 4\)$"):
        make()(query, key[:, 1:], value)
    with pytest.raises(InvalidInput, match=r"^value must have the shape of query, \(2, 7, 4\), got \(1, 7, 4\)$"):
        make()(query, key, value[:1])
    with pytest.raises(InvalidInput, match="^query must be a tensor, got None$"):
        make()(None, key, value)
    with pytest.raises(InvalidInput, match="^query must be floating point, got torch.int64"):
        make()(query.long(), key, value)

"""Every public piece in 16 bits, against itself in float64 at the same numbers.

``pytest tests/library/fuzzing/test_sixteen_bits.py -s`` prints the table: the worst error of each piece, in roundings:
the error over eps times the largest number of the result. A single rounding errs by at most half of one.
"""

import copy
from functools import partial

import pytest
import torch
from torch import nn

import residual_edu as library

from .cases import x
from .outcome import tensors_in
from .table import CASES

HALVES = [torch.float16, torch.bfloat16]
CALLED = [name for name, case in CASES.items() if case.call and tensors_in(case.call) and name != "parameter_groups"]
ROUNDINGS = 2  # a piece rounds what its layers hand on; ViT-5's network has the most of them


def cast(value, dtype):
    """Every floating-point tensor within ``value``, and every module, in ``dtype``."""
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, nn.Module):
        return copy.deepcopy(value).to(dtype)
    if isinstance(value, dict):
        return {key: cast(each, dtype) for key, each in value.items()}
    return tuple(cast(each, dtype) for each in value) if isinstance(value, tuple) else value


def result(name, half, dtype):
    """The result in ``dtype``, of arguments and weights that ``half`` can hold, none of them all 0."""
    torch.manual_seed(0)
    case, thing = CASES[name], getattr(library, name)
    call = cast(cast(case.call, half), dtype)
    if case.made is None:
        return thing(**call)
    thing = thing(**cast(cast(case.made, half), dtype))
    if isinstance(thing, nn.Module):
        for weight in thing.eval().parameters():
            if not weight.any():
                nn.init.normal_(weight, std=0.3)
        thing = thing.to(half).to(dtype)
    return getattr(thing, "__call__" if case.method == "forward" else case.method)(**call)


def roundings(found, right, half):
    """The worst error of the results, in roundings."""
    pairs = zip(tensors_in(found), tensors_in(right), strict=True)
    errors = [(a.double() - b).abs().max() / b.abs().max() / torch.finfo(half).eps for a, b in pairs if b.any()]
    return max((error.item() for error in errors), default=0.0)


@pytest.mark.parametrize("name", CALLED)
def test_it_is_right_to_two_roundings(name):
    worst = {half: roundings(result(name, half, half), result(name, half, torch.float64), half) for half in HALVES}
    print(f"{name:28}", *(f"{error:6.2f}" for error in worst.values()))
    assert max(worst.values()) <= ROUNDINGS


def scan(steps=600):
    signals = x(2, steps, 2, 3), x(2, steps, 2).sigmoid() / 20, -x(2).sigmoid() / 3
    return *signals, x(2, steps, 4) + 1, x(2, steps, 4) + 1, x(2)


def normalised(signal, kind=library.LayerNormalization, **more):
    return kind(signal.shape[-1], **more).to(signal)(signal)


NEAR, FAR = 100 + x(40, 8), 3e4 + 50 * x(40, 8)
HARD = {  # where 16 bits on the way would cost digits, and how many roundings there are left
    "LayerNormalization, mean 100": (normalised, (NEAR,), 0.6),
    "LayerNorm, mean 3e4": (partial(normalised, kind=library.LayerNorm), (FAR,), 0.6),
    "RMSNorm, mean 3e4": (partial(normalised, kind=library.RMSNorm), (FAR,), 0.6),
    "ResidualConnection": (
        lambda z: library.ResidualConnection(8, 0.0).to(z).eval()(z, lambda h: 100 * h),
        (NEAR,),
        1.1,
    ),
    "attention, large scores": (library.attention, (8 * x(2, 2, 99, 32), 8 * x(2, 2, 99, 32), x(2, 2, 99, 32)), 0.6),
    "fused_attention": (library.fused_attention, (8 * x(2, 2, 99, 32), 8 * x(2, 2, 99, 32), x(2, 2, 99, 32)), 0.6),
    "selective_scan, long": (library.selective_scan, scan(), 0.6),
    "chunked_scan, long": (library.chunked_scan, scan(), 0.6),
    "rotation, far away": (lambda z: library.rotate(z, library.rotary_angles([3000], 8)[-40:]), (x(40, 8),), 0.6),
}


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", HARD)
def test_where_16_bits_would_cost_digits_it_is_right_to_the_last_rounding(name, half):
    call, arguments, most = HARD[name]
    given = cast(arguments, half)
    found, right = call(*given), call(*cast(given, torch.float64))
    print(f"{name:28} {roundings(found, right, half):6.2f}")
    assert found.dtype == half and roundings(found, right, half) <= most
    with torch.autocast("cpu", torch.bfloat16):  # which alone asks for matrix products in 16 bits
        if "attention" not in name and "scan" not in name:
            assert roundings(call(*given), right, half) <= most


@pytest.mark.parametrize("half", HALVES)
def test_a_small_scale_is_not_lost_beside_1(half):
    """Also under autocast, where the stream has 32 bits and the projected scale has 16."""
    scale = (torch.finfo(half).eps * x(2, 1, 4)).to(half)
    for dtype, most in ((half, torch.finfo(half).eps / 2), (torch.float32, 2e-7)):
        h = x(2, 5, 4).to(dtype)
        found = library.Modulation(0 * scale, scale, scale).modulate(lambda z: z)(h)
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), h.double() * (1 + scale.double()), rtol=most, atol=0)


@pytest.mark.parametrize("half", HALVES)
def test_an_eps_and_a_limit_that_16_bits_cannot_hold(half):
    flat = torch.full((1, 4), 0.3, dtype=half)
    assert not normalised(flat, eps=1e-8).any() and not library.L2Norm(eps=1e-12)(0 * flat).any()
    mask = library.GaussianModulation(1, 4, min_std=1e-3)
    nn.init.constant_(mask.std_param, -0.5)  # -0.5 + (0.001 + 0.5) is 0 in bfloat16
    found = mask.to(half)(library.position_grid([3], [4], flat), flat.new_ones(1, 5, 4))
    assert found[0, :, 0].tolist() == [0, 0, 1, 0, 0]

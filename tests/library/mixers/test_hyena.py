from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.functional import silu

from residual_edu import CausalConv1D, CKConv, Hyena, KernelFiLMGenerator, RMSNorm, SIRENKernel
from tests.library.helpers import TableNorm, agree, decayed, rms

SHORT = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
NORM = partial(RMSNorm, 4)
OFF = nn.Identity


def long_conv(data_dim=1, is_causal=False, film=False):
    film_cfg = partial(KernelFiLMGenerator, 5, 6, 2) if film else None
    kernel = partial(SIRENKernel, 4, data_dim, 6, 3, 6, 5.0, 8, True, film_cfg=film_cfg)
    return partial(CKConv, data_dim, 4, kernel, OFF, "double", "zero", is_causal)


def make(data_dim=1, film=False, is_causal=False, **changes):
    short = partial(SHORT[data_dim], 12, 12, 3, padding="same", groups=12)
    parts = {
        "global_conv_cfg": long_conv(data_dim, is_causal, film),
        "short_conv_cfg": partial(CausalConv1D, 12, 12, 3, groups=12) if is_causal else short,
        "gate_nonlinear_cfg": nn.SiLU,
        "pixelhyena_norm_cfg": OFF,
        "qk_norm_cfg": None,
    }
    hyena = Hyena(**(parts | changes))
    for p in hyena.parameters():
        nn.init.normal_(p)
    return hyena.double()


def signals(*space, batch=2):
    return [torch.randn(batch, *space, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]


def slowly(hyena, query, key, value, first, second, conditioning=None):
    joined = torch.cat([query, key, value], -1).movedim(-1, 1)
    query, key, value = hyena.short_conv(joined).movedim(1, -1).split(4, -1)
    query = query if hyena.q_norm is None else rms(query, hyena.q_norm.weight)
    key = key if hyena.k_norm is None else rms(key, hyena.k_norm.weight)
    z = query * first(key)
    z = rms(z, hyena.pixelhyena_norm.weight) if isinstance(hyena.pixelhyena_norm, RMSNorm) else z
    y = hyena.global_conv(z, conditioning=conditioning) * second(value)
    return rms(y, hyena.output_norm.weight) if isinstance(hyena.output_norm, RMSNorm) else y


def same(x):
    return x


WAYS = [
    ((7,), {}, silu, silu),
    ((7,), {"is_causal": True}, silu, silu),
    ((7,), {"film": True, "qk_norm_cfg": NORM}, silu, silu),  # no norm of a key that is gated
    ((2, 3, 2), {"data_dim": 3}, silu, silu),
    ((7,), {"short_conv_cfg": OFF}, silu, silu),
    ((7,), {"gate_nonlinear_cfg": OFF}, same, same),
    ((7,), {"gate_nonlinear_2_cfg": nn.Sigmoid}, silu, torch.sigmoid),
    ((7,), {"qk_norm_cfg": NORM, "gate_nonlinear_cfg": OFF, "gate_nonlinear_2_cfg": nn.Sigmoid}, same, torch.sigmoid),
    ((3, 4), {"data_dim": 2, "qk_norm_cfg": NORM, "pixelhyena_norm_cfg": NORM, "output_norm_cfg": NORM}, silu, silu),
]


@pytest.mark.parametrize("space, way, first, second", WAYS)
def test_it_is_the_equation_values_and_gradients(space, way, first, second):
    hyena, given = make(**way), signals(*space)
    c = torch.randn(2, 5).double() if "film" in way else None
    assert hyena.k_norm is None or first is same
    agree(hyena(*given, conditioning=c), slowly(hyena, *given, first, second, c), [*given, *hyena.parameters()], 1e-9)


@pytest.mark.parametrize("norm", [partial(nn.GroupNorm, 2, 4), partial(nn.InstanceNorm1d, 4, affine=True)])
def test_norms_that_look_for_channels_on_axis_1_find_them(norm):
    hyena, given = make(pixelhyena_norm_cfg=norm, short_conv_cfg=OFF), signals(7)
    normed = hyena.pixelhyena_norm((given[0] * silu(given[1])).movedim(-1, 1)).movedim(1, -1)
    torch.testing.assert_close(hyena(*given), hyena.global_conv(normed) * silu(given[2]))


def test_keys_and_what_is_exempt_from_weight_decay():
    hyena = make(qk_norm_cfg=NORM, pixelhyena_norm_cfg=NORM, output_norm_cfg=NORM, gate_nonlinear_cfg=OFF)
    keys = [key for key in hyena.state_dict() if not key.startswith("global_conv.")]
    norms = ["pixelhyena_norm", "output_norm", "q_norm", "k_norm"]
    assert sorted(keys) == sorted(["short_conv.weight", "short_conv.bias", *[f"{norm}.weight" for norm in norms]])
    for made in (hyena, make(output_norm_cfg=TableNorm, pixelhyena_norm_cfg=TableNorm)):
        assert decayed(made) == ["global_conv.kernel.out_linear.weight", "short_conv.weight"]

"""Every norm against its equation: LayerNorm and RMSNorm by torch's kernel and by the formula, and the others."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from residual_edu import (
    GlobalResponseNorm,
    L2Norm,
    LayerNorm,
    LayerNormalization,
    PerHeadRMSNorm,
    RMSNorm,
    rms_norm,
)
from tests.library.helpers import agree

pytestmark = pytest.mark.usefixtures("all_as_installed")

KINDS = [(LayerNorm, nn.LayerNorm, 1e-5), (RMSNorm, nn.RMSNorm, 1e-6)]
FUSED = pytest.mark.parametrize("fused", [True, False])
NORMS = pytest.mark.parametrize("norm", [LayerNorm, RMSNorm])

INPUTS = {
    "one axis": lambda: torch.randn(5),
    "no positions": lambda: torch.randn(2, 0, 4),
    "transposed": lambda: torch.randn(6, 3).T,
    "every second feature": lambda: torch.randn(3, 8)[:, ::2],
    "one row, expanded": lambda: torch.randn(1, 4).expand(5, 4),
}


def numpy_norm(x, weight, bias, g, eps, centred):
    """Values and gradients, written out in numpy: y, dx, dweight, dbias for the upstream gradient g."""
    mean = x.mean(-1, keepdims=True) if centred else 0
    length = np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + eps)
    unit = (x - mean) / length
    h = g * weight
    dx = h - unit * (h * unit).mean(-1, keepdims=True) - (h.mean(-1, keepdims=True) if centred else 0)
    rows = tuple(range(x.ndim - 1))
    return unit * weight + bias, dx / length, (g * unit).sum(rows), g.sum(rows)


def run(module, x, g):
    """Values, the gradient of x, the gradients of the parameters."""
    x = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    y = module(x)
    return [y.detach(), *torch.autograd.grad(y, [x, *module.parameters()], g)]


def filled(module, dtype=torch.float64):
    for p in module.parameters():
        nn.init.normal_(p)
    return module.to(dtype)


@FUSED
@pytest.mark.parametrize(("ours", "theirs", "eps"), KINDS)
@pytest.mark.parametrize("case", INPUTS)
def test_values_and_gradients_in_float64(case, ours, theirs, eps, fused):
    x = INPUTS[case]().double()
    g = torch.randn_like(x, memory_format=torch.contiguous_format)
    module, reference = filled(ours(x.shape[-1], fused=fused)), theirs(x.shape[-1], eps=eps, dtype=x.dtype)
    reference.load_state_dict(module.state_dict())
    bias = module.bias.detach().numpy() if ours is LayerNorm else 0.0
    transcribed = numpy_norm(x.numpy(), module.weight.detach().numpy(), bias, g.numpy(), eps, ours is LayerNorm)
    found = run(module, x, g)
    torch.testing.assert_close(found, run(reference, x, g), rtol=1e-11, atol=1e-11)
    for a, c in zip(found, transcribed, strict=False):  # RMSNorm has no bias, so it has one gradient fewer
        torch.testing.assert_close(a, torch.as_tensor(c), rtol=1e-11, atol=1e-11)
    assert list(ours(3).state_dict().values())[0].tolist() == [1, 1, 1]


@FUSED
@pytest.mark.parametrize("options", [{"bias": False}, {"elementwise_affine": False}])
def test_options_and_state_dict_are_those_of_torch(options, fused):
    ours, theirs = LayerNorm(6, fused=fused, **options).double(), filled(nn.LayerNorm(6, **options))
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 3, 6).double()
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-12, atol=1e-12)


@FUSED
@NORMS
def test_16_bit_gradients_over_many_rows(norm, fused):
    """torch's own kernel sums them in 16 bits: at 4,096 rows its bias gradient is short by 88 %."""
    module, x, g = filled(norm(4, fused=fused), torch.float32), torch.randn(4096, 4), torch.rand(4096, 4) + 0.5
    x, g = x.bfloat16(), g.bfloat16()
    found, exact = run(module, x, g), run(copy.deepcopy(module).double(), x.double(), g.double())
    assert [a.dtype for a in found] == [torch.bfloat16] * 2 + [torch.float32] * (len(found) - 2)
    for a, b, bound in zip(found, exact, [2e-2, 2e-2, 1e-5, 1e-5], strict=False):
        torch.testing.assert_close(a.double(), b, rtol=bound, atol=bound * b.abs().max().item())


@pytest.mark.parametrize("width", [2, 64])
def test_layer_normalization_against_its_formula(width):
    module, x = filled(LayerNormalization(width, eps=0.5)), torch.randn(3, width, dtype=torch.float64)
    alpha, bias = module.alpha.detach().numpy(), module.bias.detach().numpy()
    n = x.numpy()
    expected = alpha * (n - n.mean(-1, keepdims=True)) / (n.std(-1, ddof=1, keepdims=True) + 0.5) + bias
    torch.testing.assert_close(module(x).detach(), torch.as_tensor(expected), rtol=1e-13, atol=1e-13)
    assert list(module.state_dict()) == ["alpha", "bias"] and LayerNormalization(3).alpha.tolist() == [1, 1, 1]


@pytest.mark.parametrize("dim", [-1, 1])
def test_l2_lengths_are_one_along_the_axis(dim):
    x = torch.randn(3, 4, 5, dtype=torch.float64)
    torch.testing.assert_close(L2Norm(dim)(x), x / x.square().sum(dim, keepdim=True).sqrt(), rtol=1e-14, atol=0)


def test_each_head_by_itself_with_one_gain():
    norm, x = filled(PerHeadRMSNorm(3, 4, eps=1e-5)), torch.randn(2, 5, 12, dtype=torch.float64)
    assert list(norm.state_dict()) == ["norm.weight"] and norm.norm.weight.shape == (4,)
    torch.testing.assert_close(rms_norm(x, eps=0.0).square().mean(-1), torch.ones(2, 5).double())
    heads = [nn.functional.rms_norm(head, (4,), norm.norm.weight, 1e-5) for head in x.split(4, dim=-1)]
    torch.testing.assert_close(norm(x), torch.cat(heads, dim=-1), rtol=1e-13, atol=1e-13)


def response_norm(x, gamma, beta):
    """Sample by sample and channel by channel."""
    rows = []
    for sample in x.flatten(1, -2):
        sizes = [channel.square().sum().sqrt() for channel in sample.T]
        mean = sum(sizes) / len(sizes) + 1e-6
        columns = [c * s / mean * g + b + c for c, s, g, b in zip(sample.T, sizes, gamma, beta, strict=True)]
        rows.append(torch.stack(columns, -1))
    return torch.stack(rows).view(x.shape)


@pytest.mark.parametrize("space", [(1,), (5,), (2, 1, 3)])
def test_global_response_norm_in_float64(space):
    made, x = filled(GlobalResponseNorm(4)), torch.randn(3, *space, 4, dtype=torch.float64, requires_grad=True)
    agree(made(x), response_norm(x, made.gamma, made.beta), [x, *made.parameters()], 1e-12)
    assert GlobalResponseNorm(4)(x).equal(x)  # at its start
    assert list(made.state_dict()) == ["gamma", "beta"] and repr(made) == "GlobalResponseNorm(4, eps=1e-06)"


def test_global_response_norm_sums_sizes_in_32_bits_and_is_finite_at_zero():
    x = torch.full((1, 4096, 2), 16.0).half()  # the sum of squares is 1,048,576, beyond float16
    made = GlobalResponseNorm(2)
    nn.init.ones_(made.gamma)
    assert made(x).dtype == torch.float16 and (made(x) == 32).all()
    silent = torch.zeros(2, 5, 2, requires_grad=True)
    assert torch.autograd.grad(made(silent).sum(), silent)[0].isfinite().all()

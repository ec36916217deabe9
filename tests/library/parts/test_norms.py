"""What LayerNorm and RMSNorm must both do, by torch's kernel and by the formula."""

import copy
import pickle

import numpy as np
import pytest
import torch

from residual_edu import LayerNorm, RMSNorm

pytestmark = pytest.mark.usefixtures("as_installed")

KINDS = [(LayerNorm, torch.nn.LayerNorm, 1e-5), (RMSNorm, torch.nn.RMSNorm, 1e-6)]
NORMS = [LayerNorm, RMSNorm]

INPUTS = {
    "one axis": lambda: torch.randn(5),
    "two axes": lambda: torch.randn(3, 4),
    "three axes": lambda: torch.randn(2, 3, 8),
    "four axes": lambda: torch.randn(2, 1, 3, 6),
    "five axes": lambda: torch.randn(2, 1, 3, 2, 7),
    "no rows": lambda: torch.randn(0, 4),
    "no positions": lambda: torch.randn(2, 0, 4),
    "one feature": lambda: torch.randn(3, 1),
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
        torch.nn.init.normal_(p)
    return module.to(dtype)


@pytest.mark.parametrize("fused", [True, False])
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
    for a, b in zip(found, run(reference, x, g), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)
    for a, c in zip(found, transcribed, strict=False):  # RMSNorm has no bias, so it has one gradient fewer
        torch.testing.assert_close(a, torch.as_tensor(c), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("norm", NORMS)
def test_gradcheck(norm, fused):
    module, x = filled(norm(4, fused=fused)), torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(module, x)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("offset", [0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("parameters", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_dtype_is_kept_and_the_error_is_bounded(parameters, dtype, offset, norm, fused):
    x = (torch.randn(16, 64) + offset).to(dtype)
    module = filled(norm(64, fused=fused), parameters)
    y, exact = module(x), copy.deepcopy(module).double()(x.double())
    steps = torch.finfo(dtype).eps * (1 + exact.abs())  # the output's own rounding, and that of the weights
    mean = x.double().mean(1, keepdim=True) if norm is LayerNorm else 0
    length = ((x.double() - mean).square().mean(1, keepdim=True) + module.eps).sqrt()
    cancelled = torch.finfo(torch.promote_types(dtype, torch.float32)).eps * x.double().abs() / length
    assert y.dtype == dtype
    assert ((y.double() - exact).abs() <= 2 * steps + 4 * cancelled * module.weight.double().abs()).all()


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("norm", NORMS)
def test_16_bit_gradients_over_many_rows(norm, fused):
    """torch's own kernel sums them in 16 bits: at 4,096 rows its bias gradient is short by 88 %."""
    module, x, g = filled(norm(4, fused=fused), torch.float32), torch.randn(4096, 4), torch.rand(4096, 4) + 0.5
    x, g = x.bfloat16(), g.bfloat16()
    found, exact = run(module, x, g), run(copy.deepcopy(module).double(), x.double(), g.double())
    assert [a.dtype for a in found] == [torch.bfloat16] * 2 + [torch.float32] * (len(found) - 2)
    for a, b, bound in zip(found, exact, [2e-2, 2e-2, 1e-5, 1e-5], strict=False):
        torch.testing.assert_close(a.double(), b, rtol=bound, atol=bound * b.abs().max().item())


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("way", ["compile", "vmap", "deepcopy", "pickle", "state_dict"])
def test_same_numbers_by_another_way(way, norm, fused, compiled):
    module, x, g = filled(norm(6, fused=fused)), torch.randn(2, 3, 6).double(), torch.randn(2, 3, 6).double()
    other = {
        "compile": lambda: compiled(module),
        "vmap": lambda: Vmapped(module),
        "deepcopy": lambda: copy.deepcopy(module),
        "pickle": lambda: pickle.loads(pickle.dumps(module)),
        "state_dict": lambda: norm(6, fused=not fused).double(),
    }[way]()
    if way == "state_dict":
        other.load_state_dict(module.state_dict())
    for a, b in zip(run(other, x, g), run(module, x, g), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


class Vmapped(torch.nn.Module):
    """Each row by itself."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return torch.vmap(torch.vmap(self.module))(x)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("norm", NORMS)
def test_nan_and_infinity_reach_the_output_of_their_own_row_alone(norm, fused):
    x = torch.randn(3, 4)
    x[0, 1], x[2, 0] = torch.nan, torch.inf
    assert norm(4, fused=fused)(x).isnan().any(dim=1).tolist() == [True, False, True]


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("value", [0.0, 1.0, 1e4])
def test_constant_rows_have_finite_values_and_gradients(value, norm, fused):
    assert all(t.isfinite().all() for t in run(norm(4, fused=fused), torch.full((2, 4), value), torch.randn(2, 4)))


@pytest.mark.parametrize("norm", NORMS)
def test_the_repr_shows_which_way_is_taken(norm):
    assert "fused=False" in repr(norm(4, fused=False)) and "(4, eps=" in repr(norm(4))

"""How close the sizes are: to those in float64, also where float32 could not hold the squares."""

import pytest
import torch
from torch import nn

from residual_edu.gradient_flow.sizes import size, size_between, size_of_gradients


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("count", [1, 10**6])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_a_norm_is_that_in_float64(scale, count, dtype):
    x = (torch.randn(count) * scale).to(dtype)
    weight = nn.Parameter(x)
    weight.grad = x
    for found, elements, want in [
        (*size(x), x),
        (*size_between(3 * x, x), 3 * x - x),
        (*size_of_gradients([weight]), x),
    ]:
        assert elements == count
        assert found.item() == pytest.approx(want.double().norm().item(), rel=1e-9)


def test_numbers_that_are_all_equal_are_the_worst():
    x = torch.full((10**7,), 0.3)
    assert size(x)[0].item() == pytest.approx(x.double().norm().item(), rel=1e-9)

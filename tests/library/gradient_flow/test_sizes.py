"""How close the sizes are."""

import pytest
import torch
from torch import nn

from residual_edu.gradient_flow.sizes import MANY, size, size_between, size_of_gradients


def values(count, scale):
    return torch.randn(count, generator=torch.Generator().manual_seed(0)) * scale


@pytest.mark.parametrize("count", [1, MANY, MANY + 1, 10**7])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_a_norm_is_that_in_float64(scale, count):
    x = values(count, scale)
    weight = nn.Parameter(x)
    weight.grad = x
    for found, elements, want in [
        (*size(x), x),
        (*size_between(3 * x, x), 3 * x - x),
        (*size_of_gradients([weight]), x),
    ]:
        assert elements == count
        assert found.item() == pytest.approx(want.double().norm().item(), rel=1e-5)


@pytest.mark.parametrize(("count", "closeness"), [(MANY, 1e-4), (MANY + 1, 1e-5), (10**7, 1e-5)])
def test_numbers_that_are_all_equal_are_the_worst(count, closeness):
    x = torch.full((count,), 0.3)
    assert size(x)[0].item() == pytest.approx(x.double().norm().item(), rel=closeness)


def test_many_numbers_in_half_precision():
    x = values(10**6, 1.0).bfloat16()
    assert size(x)[0].item() == pytest.approx(x.double().norm().item(), rel=1e-5)

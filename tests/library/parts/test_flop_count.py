import math

import pytest
from torch import nn

from residual_edu import LayerScale, RMSNorm
from residual_edu.parts.flop_count import count_positions, flop_count

pytestmark = pytest.mark.usefixtures("as_installed")


class Costly(nn.Module):
    def flop_count(self, shape, inference=False):
        return (1 if inference else 10) * count_positions(shape)


@pytest.mark.parametrize("shape, count", [(7, 7), ((7,), 7), ([2, 3], 6), ((2, 3, 4), 24)])
def test_positions(shape, count):
    assert count_positions(shape) == count


def test_a_module_counts_by_its_method_and_0_without_one():
    assert [flop_count(Costly(), (2, 3)), flop_count(Costly(), 6, inference=True), flop_count(nn.Identity(), 6)] == [
        60,
        6,
        0,
    ]


@pytest.mark.parametrize("shape", [7, (7,), (2, 3), (2, 3, 4)])
@pytest.mark.parametrize("inference", [False, True])
def test_small_parts(shape, inference):
    numbers = 5 * math.prod([shape] if isinstance(shape, int) else shape)
    assert RMSNorm(5).flop_count(shape, inference) == 3 * numbers  # square, divide, gain
    assert LayerScale(5).flop_count(shape, inference) == numbers

from math import exp

import pytest
import torch

from residual_edu import ExponentialModulation, GaussianModulation, position_grid
from tests.library.helpers import decayed

SIZES = {  # the factor along one axis at a distance, by the parameter of axis and channel
    ExponentialModulation: lambda place, weight: exp(-abs(place) * abs(weight)),
    GaussianModulation: lambda place, std: exp(-((place / max(std, 1e-3)) ** 2) / 2),
}


@pytest.mark.parametrize("lengths", [[4], [2, 3, 2]])
@pytest.mark.parametrize("kind", SIZES)
def test_the_formula(kind, lengths):
    mask = kind(len(lengths), 3).double()
    (parameter,) = mask.parameters()
    torch.nn.init.normal_(parameter, 0.5)  # negative ones too: of a decay the size counts, a spread has its least value
    where = position_grid(lengths, lengths, like=torch.zeros(1, dtype=torch.float64))
    kernel = torch.randn(2, *[2 * n - 1 for n in lengths], 3, dtype=torch.float64)
    found = mask(where, kernel)
    for place in torch.cartesian_prod(*[torch.arange(2 * n - 1) for n in lengths]).view(-1, len(lengths)).tolist():
        for c in range(3):
            factor = 1.0
            for axis in range(len(lengths)):
                factor *= SIZES[kind](where[(0, *place)][axis].item(), parameter[axis, c].item())
            torch.testing.assert_close(found[(slice(None), *place, c)], kernel[(slice(None), *place, c)] * factor)


def test_where_they_start_and_that_they_are_exempt_from_weight_decay():
    exponential, gaussian = ExponentialModulation(2, 3), GaussianModulation(2, 3, init_std_low=0.01, init_std_high=1.0)
    assert list(exponential.state_dict()) == ["weight"] and list(gaussian.state_dict()) == ["std_param"]
    evenly = torch.tensor([2.3, (2.3 + 13.81) / 2, 13.81]) / 2  # shared by two axes
    torch.testing.assert_close(exponential.weight.detach(), evenly.repeat(2, 1))
    torch.testing.assert_close(gaussian.std.detach(), torch.tensor([0.01, 0.1, 1.0]).repeat(2, 1))
    assert decayed(exponential) == decayed(gaussian) == []


@pytest.mark.parametrize("way, inverse", [("log", torch.log), ("softplus", lambda s: s.expm1().log())])
def test_other_ways_to_learn_a_spread(way, inverse):
    direct, other = GaussianModulation(1, 5), GaussianModulation(1, 5, parametrization=way)
    torch.testing.assert_close(other.std_param.detach(), inverse(direct.std_param.detach()))
    torch.testing.assert_close(other.std, direct.std)
    far = GaussianModulation(1, 3, init_std_low=50.0, init_std_high=200.0, parametrization=way)  # beyond exp(89)
    torch.testing.assert_close(far.std.detach(), torch.tensor([[50.0, 100.0, 200.0]]))


@pytest.mark.parametrize("way", ["direct", "log", "softplus"])
def test_a_spread_beyond_its_limits_counts_as_the_limit_and_can_come_back(way):
    mask = GaussianModulation(1, 2, min_std=0.1, max_std=0.5, init_std_low=0.01, init_std_high=2.0, parametrization=way)
    before = mask.std_param.detach().clone()
    assert mask.std.tolist() == [pytest.approx([0.1, 0.5])]
    mask(position_grid([4], [4], like=torch.zeros(1)), torch.ones(1, 7, 2)).sum().backward()
    assert mask.std_param.grad.abs().min() > 0  # the limit hides no gradient,
    assert mask.std_param.detach().equal(before)  # and looking changes nothing

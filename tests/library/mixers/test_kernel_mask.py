import re
from functools import partial
from math import exp

import pytest
import torch

from residual_edu import (
    ExponentialModulation,
    ExponentialModulationND,
    GaussianModulation,
    GaussianModulationND,
    InvalidInput,
    parameter_groups,
    position_grid,
)

BOTH = [ExponentialModulation, GaussianModulation]


def grid(*lengths):
    return position_grid(lengths, [max(length, 2) for length in lengths], like=torch.zeros(1, dtype=torch.float64))


@pytest.mark.parametrize("lengths", [[4], [3, 4], [2, 3, 2]])
def test_the_exponential_by_the_formula(lengths):
    mask = ExponentialModulation(len(lengths), 3).double()
    torch.nn.init.normal_(mask.weight)  # negative ones too: their size counts
    where, kernel = grid(*lengths), torch.randn(2, *[2 * n - 1 for n in lengths], 3, dtype=torch.float64)
    found = mask(where, kernel)
    for place in torch.cartesian_prod(*[torch.arange(2 * n - 1) for n in lengths]).view(-1, len(lengths)).tolist():
        for c in range(3):
            factor = 1.0
            for axis in range(len(lengths)):
                factor *= exp(-abs(where[(0, *place)][axis].item()) * abs(mask.weight[axis, c].item()))
            torch.testing.assert_close(found[(slice(None), *place, c)], kernel[(slice(None), *place, c)] * factor)


@pytest.mark.parametrize("lengths", [[4], [3, 4], [2, 3, 2]])
def test_the_gaussian_by_the_formula(lengths):
    mask = GaussianModulation(len(lengths), 3, init_std_low=0.3).double()
    where, kernel = grid(*lengths), torch.randn(2, *[2 * n - 1 for n in lengths], 3, dtype=torch.float64)
    found = mask(where, kernel)
    for place in torch.cartesian_prod(*[torch.arange(2 * n - 1) for n in lengths]).view(-1, len(lengths)).tolist():
        for c in range(3):
            factor = 1.0
            for axis in range(len(lengths)):
                factor *= exp(-((where[(0, *place)][axis].item() / mask.std_param[axis, c].item()) ** 2) / 2)
            torch.testing.assert_close(found[(slice(None), *place, c)], kernel[(slice(None), *place, c)] * factor)


def test_where_they_start():
    exponential, gaussian = ExponentialModulation(2, 3), GaussianModulation(2, 3, init_std_low=0.01, init_std_high=1.0)
    assert list(exponential.state_dict()) == ["weight"] and list(gaussian.state_dict()) == ["std_param"]
    evenly = torch.tensor([2.3, (2.3 + 13.81) / 2, 13.81]) / 2  # shared by two axes
    torch.testing.assert_close(exponential.weight.detach(), evenly.repeat(2, 1))
    torch.testing.assert_close(gaussian.std.detach(), torch.tensor([0.01, 0.1, 1.0]).repeat(2, 1))
    assert (ExponentialModulationND, GaussianModulationND) == (ExponentialModulation, GaussianModulation)


@pytest.mark.parametrize("way, inverse", [("log", torch.log), ("softplus", lambda s: s.expm1().log())])
def test_other_ways_to_learn_a_spread(way, inverse):
    direct, other = GaussianModulation(1, 5), GaussianModulation(1, 5, parametrization=way)
    torch.testing.assert_close(other.std_param.detach(), inverse(direct.std_param.detach()))
    torch.testing.assert_close(other.std, direct.std)


@pytest.mark.parametrize("way", ["direct", "log", "softplus"])
def test_a_spread_beyond_its_limits_counts_as_the_limit_and_can_come_back(way):
    mask = GaussianModulation(1, 2, min_std=0.1, max_std=0.5, init_std_low=0.01, init_std_high=2.0, parametrization=way)
    before = mask.std_param.detach().clone()
    assert mask.std.tolist() == [pytest.approx([0.1, 0.5])]
    mask(grid(4).float(), torch.ones(1, 7, 2)).sum().backward()
    assert mask.std_param.grad.abs().min() > 0  # the limit hides no gradient,
    assert mask.std_param.detach().equal(before)  # and looking changes nothing


@pytest.mark.parametrize("kind", BOTH)
def test_they_are_exempt_from_weight_decay_and_keep_the_dtype(kind):
    mask = kind(2, 3)
    assert parameter_groups(mask, 0.1)[0]["params"] == []
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        where = position_grid([3, 3], [3, 3], like=torch.zeros(1, dtype=dtype))
        assert mask.to(dtype)(where, torch.ones(1, 5, 5, 3, dtype=dtype)).dtype == dtype


def test_a_softplus_start_that_its_exponential_could_not_reach():
    mask = GaussianModulation(1, 3, init_std_low=50.0, init_std_high=200.0, parametrization="softplus")
    torch.testing.assert_close(mask.std.detach(), torch.tensor([[50.0, 100.0, 200.0]]))


TAPS, GAUSSIAN = torch.zeros(1, 7, 3), partial(GaussianModulation, 1, 3)
SIGMAS = "min_std and init_std must be float32 above 0, got"
REFUSED = [
    *[
        (lambda kind=kind, given=given: kind(1, 3)(*given), f"{words} must be floating point of shape ")
        for kind in BOTH
        for given, words in [
            ((TAPS[..., :1], TAPS[..., :1]), "x"),
            ((TAPS[:, :1, :1], TAPS), "x"),
            ((TAPS[..., :2], TAPS), "grid"),
            ((TAPS.expand(2, 7, 3)[..., :1], TAPS), "grid"),
        ]
    ],
    (lambda: ExponentialModulation(1, 3, fast_decay_pct=0.0), "fast_decay_pct must be a finite number above 0, got 0"),
    (lambda: ExponentialModulation(1, 3, slow_decay_pct=-1.0), "slow_decay_pct must be a finite number above 0, got -"),
    (lambda: GAUSSIAN(min_std=0.0), f"{SIGMAS} (0.0, 0.05, 1.0)"),
    (lambda: GAUSSIAN(init_std_low=0), f"{SIGMAS} (0.001, 0, 1.0)"),
    (lambda: GAUSSIAN(init_std_high=float("nan")), f"{SIGMAS} (0.001, 0.05, nan)"),
    (lambda: GAUSSIAN(min_std=0.5, max_std=0.1), "max_std must be above min_std=0.5, got 0.1"),
    (
        lambda: GAUSSIAN(parametrization="logs"),
        "parametrization must be one of 'direct', 'log', 'softplus', got 'logs'",
    ),
]


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize("call, words", REFUSED)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{re.escape(words)}"):
        call()

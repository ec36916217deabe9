import copy

import pytest
import torch

from residual_edu import DropPath, InvalidInput, drop_path, drop_path_schedule

pytestmark = pytest.mark.usefixtures("as_installed")


def seeded_generator(seed=7):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("shape", [(16,), (16, 4), (16, 3, 4), (16, 2, 3, 4), (0, 3, 4)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_each_sample_is_dropped_whole_or_exactly_one_over_one_minus_p_larger(dtype, shape):
    x = (torch.rand(shape) + 1).to(dtype)
    y = drop_path(x, 0.4, generator=seeded_generator())
    assert y.dtype == dtype and y.shape == x.shape
    for before, after in zip(x.double(), y.double(), strict=True):
        expected = before / 0.6 if after.any() else 0 * before
        torch.testing.assert_close(after, expected, rtol=torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_mean_and_share_over_many_samples(p):
    n = 200_000
    y = drop_path(torch.ones(n, 1, dtype=torch.float64), p, generator=seeded_generator())
    assert abs(y.mean() - 1) < 5 * (p / (1 - p) / n) ** 0.5
    assert abs((y == 0).double().mean() - p) < 5 * (p * (1 - p) / n) ** 0.5


def test_depth_is_poisson_binomial_not_uniform():
    rates = drop_path_schedule(12, 0.5)
    ones, generator = torch.ones(20_000, 1), seeded_generator()
    depth = sum(drop_path(ones, p, generator=generator) != 0 for p in rates).float()
    mean, variance = 12 - sum(rates), sum(p * (1 - p) for p in rates)
    assert abs(depth.mean() - mean) < 5 * (variance / len(ones)) ** 0.5 and mean == pytest.approx(9.0)
    assert abs(depth.var() / variance - 1) < 0.05  # a uniform depth on 1 to 12 would have 11.9, not 2.0
    assert (depth < 4).float().mean() < 1e-3


@pytest.mark.parametrize("module", [DropPath(0.5).eval(), DropPath(0.0), DropPath()])
def test_evaluation_and_rate_zero_return_the_very_same_tensor(module):
    assert module(x := torch.randn(3, 4)) is x


def test_each_call_draws_its_own_mask_and_a_copy_the_same_ones():
    module, x = DropPath(0.5, seeded_generator()), torch.ones(64, 2)
    other = copy.deepcopy(module)
    first, second = module(x), module(x)
    assert not first.equal(second)
    assert other(x).equal(first) and other(x).equal(second)


def test_a_generator_leaves_torchs_own_alone():
    before = torch.get_rng_state()
    drop_path(torch.ones(8, 2), 0.5, generator=seeded_generator())
    assert torch.get_rng_state().equal(before)


def test_the_gradient_is_dropped_where_the_sample_was():
    x = torch.randn(16, 3, dtype=torch.float64, requires_grad=True)
    y = drop_path(x, 0.5, generator=seeded_generator())
    y.backward(g := torch.randn(16, 3, dtype=torch.float64))
    torch.testing.assert_close(x.grad, torch.where(y == 0, 0.0, 2 * g))


def test_compiles_into_one_graph(compiled):
    assert set(compiled(DropPath(0.5))(torch.ones(64, 2)).flatten().tolist()) == {0.0, 2.0}


def test_names():
    assert DropPath(0.2).drop_prob == 0.2 and repr(DropPath(0.2)) == "DropPath(drop_prob=0.2)"
    assert not DropPath(0.2).state_dict()


@pytest.mark.parametrize(
    ("depth", "max_rate", "rates"),
    [(1, 0.3, [0.0]), (2, 0.3, [0.0, 0.3]), (5, 0.2, [0.0, 0.05, 0.1, 0.15, 0.2]), (3, 0.0, [0.0, 0.0, 0.0])],
)
def test_schedule(depth, max_rate, rates):
    assert drop_path_schedule(depth, max_rate) == pytest.approx(rates)


@pytest.mark.parametrize("depth", [7, 12, 48])
def test_schedule_is_torchs_linspace_and_ends_exactly_at_its_largest_rate(depth):
    rates = drop_path_schedule(depth, 0.3)
    assert rates[0] == 0 and rates[-1] == 0.3
    torch.testing.assert_close(torch.tensor(rates), torch.linspace(0, 0.3, depth))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: DropPath(1.0), "drop_prob must be a number in"),
        (lambda: drop_path(torch.ones(3), -0.1), "drop_prob must be a number in"),
        (lambda: drop_path_schedule(0, 0.1), "depth must be a whole number, at least 1, got 0"),
        (lambda: drop_path_schedule(4, 1.0), "max_rate must be a number in"),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{words}"):
        call()

"""Dropout of elements, and of samples (stochastic depth)."""

import copy

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from residual_edu import Dropout, DropPath, InvalidInput, drop_path, drop_path_schedule, dropout

pytestmark = pytest.mark.usefixtures("all_as_installed")
DROPS = pytest.mark.parametrize("drop", [dropout, drop_path])
KINDS = pytest.mark.parametrize("kind", [Dropout, DropPath])


def seeded_generator(seed=7):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@DROPS
def test_what_is_kept_is_exactly_one_over_one_minus_p_larger_and_its_gradient_too(drop, dtype):
    x = (torch.rand(16, 3, 4) + 1).to(dtype).requires_grad_()
    y = drop(x, 0.4, generator=seeded_generator())
    kept = y != 0
    torch.testing.assert_close(y, x * kept / 0.6, rtol=torch.finfo(dtype).eps, atol=0)
    assert 0 < kept.sum() < kept.numel() and y.dtype == dtype
    whole = kept.flatten(1)  # a sample, or a part of it
    assert (whole.all(1) | ~whole.any(1)).all() == (drop is drop_path)
    y.backward(g := torch.randn(16, 3, 4).to(dtype))
    torch.testing.assert_close(x.grad, g * kept / 0.6, rtol=2 * torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("p", [0.001, 0.5, 0.999])
@DROPS
def test_mean_and_share_over_many_draws_also_where_the_default_dtype_has_16_bits(drop, p):
    n, x = 200_000, torch.ones(200_000, dtype=torch.float64)
    torch.set_default_dtype(torch.bfloat16)
    try:
        y = drop(x, p, generator=seeded_generator())
    finally:
        torch.set_default_dtype(torch.float32)
    assert abs(y.mean() - 1) < 5 * (p / (1 - p) / n) ** 0.5
    assert abs((y == 0).double().mean() - p) < 5 * (p * (1 - p) / n) ** 0.5


@KINDS
def test_evaluation_and_rate_zero_return_the_very_same_tensor(kind):
    for module in (kind(0.5).eval(), kind(0.0), DropPath()):
        assert module(x := torch.randn(3, 4)) is x
    assert "=0.2" in repr(kind(0.2)) and not kind(0.2).state_dict()


@KINDS
def test_a_generator_determines_the_masks_of_a_copy_too_and_leaves_torchs_own_alone(kind):
    module, x, before = kind(0.5, seeded_generator()), torch.ones(64, 2), torch.get_rng_state()
    other = copy.deepcopy(module)
    first, second = module(x), module(x)
    assert not first.equal(second) and other(x).equal(first) and other(x).equal(second)
    assert kind(0.5, seeded_generator())(x.bfloat16()).equal(first.bfloat16())
    assert torch.get_rng_state().equal(before)


@pytest.mark.parametrize("reentrant", [True, False])
@KINDS
def test_under_checkpointing_the_masks_agree_and_a_generators_would_not(kind, reentrant):
    x = torch.ones(64, 2, requires_grad=True)
    y = checkpoint(lambda x: kind(0.5)(x.exp()).sin(), x, use_reentrant=reentrant)
    y.sum().backward()
    assert ((y == 0) == (x.grad == 0)).all() and 0 < (y == 0).sum() < 128
    own = kind(0.5, seeded_generator())
    y = checkpoint(lambda x: own(x.exp()).sin(), x, use_reentrant=reentrant)
    with pytest.raises(InvalidInput, match="^generator must be None under checkpointing"):
        y.sum().backward()


@KINDS
def test_compiles_into_one_graph_and_maps_over_samples(kind, compiled):
    x = torch.ones(64, 2, 16)
    assert set(compiled(kind(0.5))(x).flatten().tolist()) == {0.0, 2.0}
    rows = torch.vmap(kind(0.5), randomness="different")(x)
    assert set(rows.flatten().tolist()) == {0.0, 2.0} and not rows[::2].equal(rows[1::2])


@pytest.mark.parametrize("depth", [1, 2, 7, 48])
def test_schedule_is_torchs_linspace_and_ends_exactly_at_its_largest_rate(depth):
    rates = drop_path_schedule(depth, 0.3)
    assert rates[0] == 0 and rates[-1] == (0.3 if depth > 1 else 0)
    torch.testing.assert_close(torch.tensor(rates), torch.linspace(0, 0.3, depth))

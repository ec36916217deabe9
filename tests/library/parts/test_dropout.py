import copy
import pickle

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from residual_edu import Dropout, DropPath, InvalidInput, drop_path, dropout

pytestmark = pytest.mark.usefixtures("as_installed")


def seeded_generator(seed=7):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("shape", [(), (4,), (3, 4), (2, 3, 4), (0, 4)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_each_element_is_dropped_or_exactly_one_over_one_minus_p_larger(dtype, shape):
    x = (torch.rand(shape) + 1).to(dtype)
    y = dropout(x, 0.1, generator=seeded_generator())
    assert y.dtype == dtype and y.shape == x.shape
    kept = y != 0
    torch.testing.assert_close(y[kept].double(), x[kept].double() / 0.9, rtol=torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_mean_and_variance_over_many_draws(p):
    n = 200_000
    y = dropout(torch.ones(n, dtype=torch.float64), p, generator=seeded_generator())
    variance = p / (1 - p)
    assert abs(y.mean() - 1) < 5 * (variance / n) ** 0.5
    fourth = p + (1 - p) * (p / (1 - p)) ** 4  # the fourth moment of y - 1
    assert abs((y - 1).square().mean() - variance) <= 5 * ((fourth - variance**2) / n) ** 0.5


@pytest.mark.parametrize("rate", [0.001, 0.999])
@pytest.mark.parametrize("drop", [dropout, drop_path])
def test_a_rate_is_kept_where_the_default_dtype_has_16_bits(drop, rate):
    x = torch.ones(1_000_000)
    torch.set_default_dtype(torch.bfloat16)
    try:
        dropped = drop(x, rate, generator=seeded_generator()) == 0
    finally:
        torch.set_default_dtype(torch.float32)
    assert abs(dropped.double().mean() - rate) < 5 * (rate * (1 - rate) / 1_000_000) ** 0.5


def test_the_masks_of_different_elements_are_independent():
    y = dropout(torch.ones(50_000, 4), 0.3, generator=seeded_generator())
    away = torch.corrcoef(y.T) - torch.eye(4)
    assert away.abs().max() < 5 / 50_000**0.5


def test_values_are_those_that_torchs_module_can_give():
    x = torch.rand(1000) + 1
    ours, theirs = dropout(x, 0.25), torch.nn.Dropout(0.25)(x)
    both = (ours != 0) & (theirs != 0)
    assert both.sum() > 400
    torch.testing.assert_close(ours[both], theirs[both])


@pytest.mark.parametrize("module", [Dropout(0.5).eval(), Dropout(0.0)])
def test_evaluation_and_rate_zero_return_the_very_same_tensor(module):
    assert module(x := torch.randn(3, 4)) is x


def test_a_generator_determines_the_mask_and_leaves_torchs_own_alone():
    x = torch.ones(64)
    before = torch.get_rng_state()
    first, again, other = (dropout(x, 0.5, generator=seeded_generator(seed)) for seed in (1, 1, 2))
    assert first.equal(again) and not first.equal(other)
    assert torch.get_rng_state().equal(before)
    module = Dropout(0.5, seeded_generator(1))
    assert module(x).equal(first) and not module(x).equal(first)  # the generator has moved on


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("kind", [Dropout, DropPath])
def test_under_checkpointing_the_masks_agree_and_a_generators_would_not(kind, reentrant):
    x = torch.ones(64, 2, requires_grad=True)
    y = checkpoint(lambda x: kind(0.5)(x.exp()).sin(), x, use_reentrant=reentrant)
    y.sum().backward()
    assert ((y == 0) == (x.grad == 0)).all() and 0 < (y == 0).sum() < 128
    own = kind(0.5, seeded_generator())
    y = checkpoint(lambda x: own(x.exp()).sin(), x, use_reentrant=reentrant)
    with pytest.raises(
        InvalidInput, match="^generator must be None under checkpointing, where the second run would dra"
    ):
        y.sum().backward()


def test_the_same_mask_in_every_dtype():
    dropped = [
        dropout(torch.ones(64, dtype=d), 0.5, generator=seeded_generator()) == 0
        for d in (torch.float64, torch.bfloat16)
    ]
    assert dropped[0].equal(dropped[1])


def test_the_gradient_is_dropped_where_the_signal_was():
    x = torch.randn(32, dtype=torch.float64, requires_grad=True)
    y = dropout(x, 0.5, generator=seeded_generator())
    y.backward(g := torch.randn(32, dtype=torch.float64))
    torch.testing.assert_close(x.grad, torch.where(y == 0, 0.0, 2 * g))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_draws_the_same_mask(copied):
    module = Dropout(0.5, seeded_generator())
    other = copied(module)
    assert other(torch.ones(64)).equal(module(torch.ones(64)))


def test_compiles_into_one_graph_and_maps_over_samples(compiled):
    x = torch.ones(8, 16)
    assert set(compiled(Dropout(0.5))(x).flatten().tolist()) == {0.0, 2.0}
    rows = torch.vmap(Dropout(0.5), randomness="different")(x)
    assert set(rows.flatten().tolist()) == {0.0, 2.0} and not rows[0].equal(rows[1])


def test_no_parameters_and_the_rate_in_the_repr():
    assert not Dropout(0.2).state_dict() and repr(Dropout(0.2)) == "Dropout(p=0.2)"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Dropout(1.0), "p must be a number in"),
        (lambda: dropout(torch.ones(3), -0.1), "p must be a number in"),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{words}"):
        call()

import copy

import pytest
import torch
from torch import nn

from residual_edu import GlobalResponseNorm, InvalidInput, global_response_norm

pytestmark = pytest.mark.usefixtures("as_installed")


def awake(dim, dtype=torch.float64):
    made = GlobalResponseNorm(dim)
    for p in made.parameters():
        nn.init.normal_(p)
    return made.to(dtype)


def transcribed(x, gamma, beta):
    """Sample by sample and channel by channel."""
    rows = []
    for sample in x.flatten(1, -2):
        sizes = [channel.square().sum().sqrt() for channel in sample.T]
        mean = sum(sizes) / len(sizes) + 1e-6
        columns = [c * s / mean * g + b + c for c, s, g, b in zip(sample.T, sizes, gamma, beta, strict=True)]
        rows.append(torch.stack(columns, -1))
    return torch.stack(rows).view(x.shape)


@pytest.mark.parametrize("space", [(1,), (5,), (2, 3), (2, 1, 3)])
def test_values_and_gradients_in_float64(space):
    made, x = awake(4), torch.randn(3, *space, 4, dtype=torch.float64, requires_grad=True)
    leaves, g = [x, *made.parameters()], torch.randn(3, *space, 4).double()
    ours, theirs = made(x), transcribed(x, made.gamma, made.beta)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    for a, b in zip(torch.autograd.grad(ours, leaves, g), torch.autograd.grad(theirs, leaves, g), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


def test_three_and_one_by_hand():
    x = torch.tensor([[[3.0, 1], [4, 0]]], dtype=torch.float64)  # sizes 5 and 1, their mean 3
    y = global_response_norm(x, torch.ones(2).double(), torch.zeros(2).double(), eps=1e-30)
    torch.testing.assert_close(y - x, x * torch.tensor([5 / 3, 1 / 3]).double())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_at_its_start_it_is_the_identity(dtype):
    x = torch.randn(2, 5, 4).to(dtype)
    assert GlobalResponseNorm(4)(x).equal(x) and GlobalResponseNorm(4).to(dtype)(x).equal(x)


def test_a_sample_does_not_depend_on_the_others():
    made, x = awake(4), torch.randn(3, 5, 4).double()
    other = x.clone()
    other[1:] *= 100
    assert made(other)[0].equal(made(x)[0])


def test_an_output_depends_on_all_positions_and_not_on_their_order():
    made, x = awake(4), torch.randn(2, 3, 4, 4).double()
    torch.testing.assert_close(made(x.flatten(1, 2)), made(x).flatten(1, 2), rtol=1e-13, atol=1e-13)
    order = torch.randperm(12)
    torch.testing.assert_close(made(x.flatten(1, 2)[:, order]), made(x).flatten(1, 2)[:, order], rtol=1e-13, atol=1e-13)
    other = x.clone()
    other[:, 0] += 1
    assert (made(other) - made(x))[:, 1:].abs().max() > 1e-3


def test_scaling_the_whole_signal_scales_the_output():
    made, x = awake(4), torch.randn(2, 5, 4).double()
    nn.init.zeros_(made.beta)
    torch.testing.assert_close(made(1000 * x), 1000 * made(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("value", [0.0, 1.0, 1e4])
def test_constant_signals_have_finite_values_and_gradients(value):
    made, x = awake(4), torch.full((2, 5, 4), value, dtype=torch.float64, requires_grad=True)
    y = made(x)
    assert all(t.isfinite().all() for t in (y, *torch.autograd.grad(y.sum(), [x, *made.parameters()])))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sizes_are_summed_in_32_bits(dtype):
    x = torch.full((1, 4096, 2), 16.0).to(dtype)  # the sum of squares is 1,048,576, beyond float16
    y = awake(2, torch.float32)
    nn.init.ones_(y.gamma), nn.init.zeros_(y.beta)
    assert y(x).dtype == dtype and (y(x) == 32).all()


def test_the_cost_the_keys_and_the_repr():
    made = GlobalResponseNorm(4)
    assert made.flop_count(10) == made.flop_count((2, 5), inference=True) == 6 * 10 * 4
    assert list(made.state_dict()) == ["gamma", "beta"] and repr(made) == "GlobalResponseNorm(4, eps=1e-06)"
    assert made.gamma.tolist() == made.beta.tolist() == [0] * 4


def test_compile_and_deepcopy(compiled):
    made, x = awake(4, torch.float32), torch.randn(2, 5, 4)
    torch.testing.assert_close(compiled(made)(x), made(x))
    assert copy.deepcopy(made)(x).equal(made(x))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: GlobalResponseNorm(4, eps=0.0), "eps must be a finite number above 0, got 0.0"),
        (
            lambda: global_response_norm(torch.zeros(3, 5, 4), *torch.ones(2, 4), eps=-1.0),
            "eps must be at least 0, got -1.0",
        ),
        (lambda: GlobalResponseNorm(4)(torch.zeros(3, 4)), "x must be floating point of shape"),
        (lambda: GlobalResponseNorm(4)(torch.zeros(3, 5, 1)), "weight must be floating point of shape"),
        (
            lambda: global_response_norm(torch.zeros(3, 5, 4), *torch.ones(2, 1)),
            "weight must be floating point of shape",
        ),
        (lambda: GlobalResponseNorm(4)(torch.arange(4).view(1, 1, 4)), "x must be floating point"),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{words}"):
        call()

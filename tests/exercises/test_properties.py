import numpy as np
import pytest
import torch
from torch import nn

from residual_edu.exercises.properties import Unmet, close, construct, draw, gradients, run, value_of

pytestmark = pytest.mark.usefixtures("as_installed")


def unmet(function, *arguments, **keywords):
    with pytest.raises(Unmet) as caught:
        function(*arguments, **keywords)
    return str(caught.value)


def test_draw_is_the_same_each_time_and_moves_no_other_number():
    before = torch.get_rng_state()
    assert torch.equal(draw(2, 3, seed=4), draw(2, 3, seed=4))
    assert not torch.equal(draw(2, 3, seed=4), draw(2, 3, seed=5))
    assert torch.equal(torch.get_rng_state(), before)
    assert draw(2, 3).dtype == torch.float64 and draw(1, dtype=torch.bfloat16).dtype == torch.bfloat16


def test_run_returns_the_tensor_and_lets_gradients_through():
    x = draw(3).requires_grad_()
    y = run(lambda x: 2 * x, x, like=x)
    assert torch.equal(y, 2 * x)
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], torch.full((3,), 2.0, dtype=torch.float64))


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda x: None, "it returned nothing (is a `return` missing?), where a tensor was asked for"),
        (lambda x: 3, "it returned an int, where a tensor was asked for"),
        (lambda x: (x, x), "it returned a tuple, where a tensor was asked for"),
        (lambda x: x.sub_(x.mean()), "it changed its input in place; write `x = x - m`, not `x -= m`"),
        (lambda x: x.unsqueeze_(0)[0], "it changed its input in place; write `x = x - m`, not `x -= m`"),
        (lambda x: x.mean(), "it returned shape (), where (2, 3) was asked for"),
        (lambda x: x.float(), "it returned torch.float32, where torch.float64 was asked for"),
    ],
)
def test_what_run_says(function, message):
    x = draw(2, 3)
    before = x.clone()
    assert unmet(run, function, x, like=x) == message
    assert torch.equal(x, before)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_run_sees_a_change_among_nan_and_infinities(value):
    x = torch.tensor([value, 1.0])
    assert torch.equal(run(lambda x: x[1:] + 0, x), x[1:])
    assert unmet(run, lambda x: x.add_(1), x).startswith("it changed its input")
    assert torch.equal(run(lambda i: i + 1, torch.arange(3)), torch.arange(3) + 1)
    assert torch.equal(run(lambda b: ~b, torch.tensor([True])), torch.tensor([False]))


def test_gradients_are_those_of_a_weighted_sum():
    x, y = draw(2, 3), draw(3, seed=1)
    found = gradients(lambda x, y: x * y, x, y)
    weights = draw(2, 3, seed=1)
    torch.testing.assert_close(found[0], weights * y)
    torch.testing.assert_close(found[1], (weights * x).sum(0))


def test_gradients_are_found_where_they_were_switched_off():
    with torch.no_grad():
        assert gradients(lambda x: x.square(), draw(3))[0].abs().min() > 0


def test_the_weights_are_not_alike():
    """A sum with equal weights has gradient 0 through every norm, so a wrong one would pass."""
    assert gradients(lambda x: nn.functional.layer_norm(x, (4,)), draw(2, 4))[0].abs().max() > 0.1


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda x: x.detach(), "no gradient reaches its input"),
        (lambda x: x.new_zeros(x.shape, requires_grad=True), "no gradient reaches its input"),
        (lambda x: x.mul_(2), "it changed its input in place"),
        (lambda x: None, "it returned nothing"),
        (lambda x: x[0], "it returned shape (), where (3,) was asked for"),
    ],
)
def test_what_gradients_says(function, message):
    assert unmet(gradients, function, draw(3), like=draw(3)).startswith(message)


@pytest.mark.parametrize(
    "got, want",
    [
        (3, 3),
        (3.0, 3),
        (1 + 1e-7, 1.0),
        (float("nan"), float("nan")),
        (torch.tensor([1.0, float("inf")]), torch.tensor([1.0, float("inf")])),
        (torch.tensor([1e4, 1e-3]), torch.tensor([1e4, 0.0])),
        (torch.zeros(0), torch.zeros(0)),
        (torch.ones(2, dtype=torch.float64) + 1e-5, torch.ones(2)),
        (torch.ones(2, requires_grad=True), torch.ones(2)),
        (np.float64(0.5), 0.5),
        (np.int64(3), 3),
        (torch.tensor([True, False]), torch.tensor([True, False])),
    ],
)
def test_close_numbers(got, want):
    close(got, want)


@pytest.mark.parametrize(
    "got, want, message",
    [
        (1.5, 3**0.5, "the output is 1.5 where 1.732 is right"),
        (torch.tensor([[1.0, 1.5]]), torch.tensor([[1.0, 3**0.5]]), "the output at [0, 1] is 1.5 where 1.732 is right"),
        (10_000_001, 10_000_000, "the output is 10000001 where 10000000 is right"),
        (1e-8, 2e-8, "the output is 1e-08 where 2e-08 is right"),
        (1.00001, 1.0, "the output is 1.00001 where 1 is right"),
        (float("nan"), 0.0, "the output is nan where 0 is right"),
        (float("inf"), 1.0, "the output is inf where 1 is right"),
        (torch.tensor([1.0, float("inf")]), torch.tensor([1.0, 2.0]), "the output at [1] is inf where 2 is right"),
        (torch.ones(2), torch.ones(2, 1), "the output has shape (2,), where (2, 1) was asked for"),
        (torch.ones(1), 1.0, "the output has shape (1,), where () was asked for"),
        (None, 1.0, "the output is nothing (is a `return` missing?), where a tensor or a number was asked for"),
        ("1", 1.0, "the output is a str, where a tensor or a number was asked for"),
        (-0.5, 0.0, "the output is -0.5 where 0 is right"),
    ],
)
def test_what_close_says(got, want, message):
    assert unmet(close, got, want) == message


def test_close_names_what_was_compared_and_takes_a_tolerance():
    assert unmet(close, 1.1, 1.0, "the mean") == "the mean is 1.1 where 1 is right"
    close(1.1, 1.0, rtol=0.2)
    assert unmet(close, 1 + 1e-7, 1.0, rtol=1e-9).startswith("the output is 1.0000001 where")


@pytest.mark.parametrize("dtype, gap", [(torch.float64, 1e-5), (torch.float32, 1e-3), (torch.bfloat16, 0.1)])
def test_the_tolerance_follows_the_coarser_dtype(dtype, gap):
    one = torch.ones(2, dtype=dtype)
    close(one * (1 + gap / 100), torch.ones(2, dtype=torch.float64))
    assert "where 1 is right" in unmet(close, one * (1 + gap), torch.ones(2, dtype=torch.float64))


def test_construct_makes_a_module_in_float64():
    assert construct(nn.LayerNorm, 4, bias=False).weight.dtype == torch.float64
    assert (
        unmet(construct, lambda: None) == "it made nothing (is a `return` missing?), where an nn.Module was asked for"
    )
    assert unmet(construct, int, 3) == "it made an int, where an nn.Module was asked for"


@pytest.mark.parametrize(
    "value, kind, want",
    [
        (3, int, 3),
        (3.0, int, 3),
        (0.5, float, 0.5),
        (np.int64(3), int, 3),
        (np.float32(0.5), float, 0.5),
        (torch.tensor(3), int, 3),
        (torch.tensor([0.5]), float, 0.5),
        (" BAC ", str, "bac"),
    ],
)
def test_the_value_of_an_answer(value, kind, want):
    found = value_of(lambda: value, kind)
    assert found == want and type(found) in (type(want), int)


@pytest.mark.parametrize(
    "value, kind, message",
    [
        (None, int, "it returned nothing (is a `return` missing?), where a number was asked for"),
        (None, str, "it returned nothing (is a `return` missing?), where a text was asked for"),
        ("3", int, "it returned a str, where a number was asked for"),
        (3, str, "it returned an int, where a text was asked for"),
        (True, int, "it returned a bool, where a number was asked for"),
        (torch.ones(2), float, "it returned a Tensor, where a number was asked for"),
        ([3], int, "it returned a list, where a number was asked for"),
    ],
)
def test_what_is_no_value(value, kind, message):
    assert unmet(value_of, lambda: value, kind) == message


def test_nan_is_a_number():
    assert np.isnan(value_of(lambda: float("nan"), float))
    assert value_of(lambda: float("inf"), float) == float("inf")

import numpy as np
import pytest
import torch

from residual_course.checking.properties import close, construct, draw, numbers_of, run, value_of
from residual_course.checking.unmet import Unmet

pytestmark = pytest.mark.usefixtures("all_as_installed")


IN_PLACE = "in place; write `x = x - m`, not `x -= m`, and no function that ends in `_`"


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


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda x: None, "it returned nothing (is a `return` missing?), where a tensor was asked for"),
        (lambda x: 3, "it returned shape (), where (2, 3) was asked for"),
        (lambda x: (x, x), "it returned a tuple, where a tensor was asked for"),
        (lambda a: a.sub_(a.mean()), f"it changed `a` {IN_PLACE}"),
        (lambda x: x.unsqueeze_(0)[0], f"it changed `x` {IN_PLACE}"),
        (lambda *given: given[0].mul_(2), f"it changed `input 1` {IN_PLACE}"),
    ],
)
def test_what_run_says(function, message):
    x = draw(2, 3)
    before = x.clone()
    assert unmet(run, function, x, like=x) == message
    assert torch.equal(x, before)


def test_run_sees_a_change_beside_nan_and_takes_whole_numbers_and_flags():
    x = torch.tensor([float("nan"), 1.0])
    assert torch.equal(run(lambda x: x[1:] + 0, x), x[1:])
    assert unmet(run, lambda x: x.add_(1), x).startswith("it changed `x` in place")
    assert torch.equal(run(lambda i: i + 1, torch.arange(3)), torch.arange(3) + 1)
    assert torch.equal(run(lambda b: ~b, torch.tensor([True])), torch.tensor([False]))


@pytest.mark.parametrize(
    "got, want",
    [
        (3, 3),
        (1 + 1e-7, 1.0),
        (torch.tensor([1.0, float("inf")]), torch.tensor([1.0, float("inf")])),
        (float("nan"), float("nan")),
        (torch.tensor([1e4, 1e-3]), torch.tensor([1e4, 0.0])),
        (torch.ones(2, dtype=torch.float64) + 1e-5, torch.ones(2)),
        (torch.ones(2, requires_grad=True), torch.ones(2)),
        (np.float64(0.5), 0.5),
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
        (1.00001, 1.0, "the output is 1.00001 where 1 is right"),
        (torch.tensor([1.0, float("inf")]), torch.tensor([1.0, 2.0]), "the output at [1] is inf where 2 is right"),
        (torch.ones(2), torch.ones(2, 1), "the output has shape (2,), where (2, 1) was asked for"),
        (None, 1.0, "the output is nothing (is a `return` missing?), where a tensor or a number was asked for"),
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


def test_what_is_no_module_number_or_list_of_numbers_is_named():
    assert unmet(construct, int, 3) == "it made an int, where an nn.Module was asked for"
    assert unmet(value_of, lambda: True) == "it returned a bool, where a number was asked for"
    assert unmet(numbers_of, torch.ones(())) == "it returned a float, where a list of numbers was asked for"
    assert value_of(lambda: np.array([[191.99998]])) == 192
    assert numbers_of([np.float32(1), 2.5]).tolist() == numbers_of(np.array([1, 2.5])).tolist() == [1, 2.5]

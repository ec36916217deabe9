import json

import pytest
import torch

from residual_edu.course.sandbox.evidence import NUMBERS, alike, confirmed, plain

NAN, INFINITY = float("nan"), float("inf")


class Liar(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function.__name__ in ("isclose", "allclose", "equal"):
            return True
        return super().__torch_function__(function, types, args, kwargs or {})


class Agrees(float):
    def __eq__(self, other):
        return True

    __hash__ = float.__hash__


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (None, None),
        (True, True),
        (3, 3.0),
        ("text", "text"),
        ((1, [2, "a"]), [1.0, [2.0, "a"]]),
        ({"b": 1, "a": None}, [["a", None], ["b", 1.0]]),
        (torch.ones(2, 1), {"shape": [2, 1], "numbers": [1.0, 1.0]}),
        (torch.tensor(True), {"shape": [], "numbers": [1.0]}),
        (torch.nn.Linear(1, 1), {"type": "Linear"}),
        (Agrees(2.0), 2.0),
    ],
)
def test_what_is_returned_becomes_plain_data(value, want):
    assert plain(value) == want and type(plain(value)) is type(want)
    json.dumps(plain(value))


def test_large_and_endless_values_stay_small():
    assert len(plain(torch.zeros(10 * NUMBERS))["numbers"]) == NUMBERS
    loop = []
    loop.append(loop)
    assert len(json.dumps(plain(loop))) < 100


@pytest.mark.parametrize(
    ("got", "want", "same"),
    [
        (1.0, 1.0005, True),
        (1.0, 1.01, False),
        (0.0, 0.0, True),
        (1e-6, 0.0, False),
        (NAN, NAN, True),
        (NAN, 1.0, False),
        (INFINITY, INFINITY, True),
        (1.0, True, False),
        ("a", "a", True),
        ([1.0], [1.0, 2.0], False),
        ([1.0, "a"], [1.0, "a"], True),
        ({"type": "Linear"}, {"type": "Linear"}, True),
        ({"numbers": [1.0]}, {"shape": [1], "numbers": [1.0]}, False),
        ({"shape": [1], "numbers": "x"}, {"shape": [1], "numbers": [1.0]}, False),
        ({"shape": [1], "numbers": [True]}, {"shape": [1], "numbers": [1.0]}, False),
        ("anything", {"shape": [], "numbers": [0.0]}, False),
    ],
)
def test_two_plain_values_say_the_same(got, want, same):
    assert alike(got, want) is same


def test_a_tensor_is_compared_relative_to_its_largest_number():
    x = torch.tensor([100.0, 0.0, NAN])
    assert alike(plain(x + torch.tensor([0.0, 0.05, 0.0])), plain(x))
    assert not alike(plain(x + torch.tensor([0.0, 0.5, 0.0])), plain(x))


def test_a_tensor_that_lies_in_comparisons_is_seen_through():
    liar = torch.zeros(3).as_subclass(Liar)
    assert torch.allclose(liar, torch.ones(3)) is True
    assert not alike(plain(liar), plain(torch.ones(3)))


@pytest.mark.parametrize(
    ("got", "same"), [([1.0, "b"], True), ([2.0, "b"], True), ([3.0, "b"], False), ([1.0], False), (None, False)]
)
def test_each_piece_must_be_one_of_the_right_ones_in_its_place(got, same):
    assert confirmed(got, [[1.0, 2.0], ["b"]]) is same

import re

import numpy as np
import pytest
import torch

from residual_edu import errors
from residual_edu.errors import InvalidInput

pytestmark = pytest.mark.usefixtures("as_installed")  # a user meets the message, not the type checker

inf, nan = float("inf"), float("nan")


def refuses(message, check, *arguments):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        check(*arguments)


def test_invalid_input_is_caught_as_a_value_error_and_as_an_assertion_error():
    for kind in (ValueError, AssertionError):
        with pytest.raises(kind, match="^dim must be at least 1, got 0$"):
            errors.check_size("dim", 0)


@pytest.mark.parametrize("value", [1, 64, np.int64(3), np.uint8(1)])
def test_a_size_is_a_whole_number(value):
    errors.check_size("dim", value)


@pytest.mark.parametrize(
    "value, message",
    [
        (0, "dim must be at least 1, got 0"),
        (-3, "dim must be at least 1, got -3"),
        (np.int64(0), "dim must be at least 1, got 0"),
        (None, "dim must be a whole number, got None"),
        ("3", "dim must be a whole number, got '3'"),
        (3.0, "dim must be a whole number, got 3.0"),
        (nan, "dim must be a whole number, got nan"),
        (inf, "dim must be a whole number, got inf"),
        (True, "dim must be a whole number, got True"),
        (np.True_, f"dim must be a whole number, got {np.True_!r}"),
        (torch.tensor(3), "dim must be a whole number, got tensor(3)"),
        (torch.zeros(100), "dim must be a whole number, got a Tensor"),
    ],
)
def test_what_is_no_size(value, message):
    refuses(message, errors.check_size, "dim", value)


@pytest.mark.parametrize("value", [1e-5, 1, 1e300, np.float32(0.1), np.int64(2)])
def test_a_positive_number(value):
    errors.check_positive("eps", value)


@pytest.mark.parametrize(
    "value", [0, 0.0, -1e-5, nan, inf, -inf, None, "3", "1e-5", True, [1.0], 1j, np.float64(0), np.int64(-1)]
)
def test_what_is_not_positive(value):
    refuses(f"eps must be a finite number above 0, got {value!r}", errors.check_positive, "eps", value)


def test_a_tensor_is_named_by_its_type():
    refuses(
        "eps must be a finite number above 0, got a Tensor", errors.check_positive, "eps", torch.ones(9, dtype=float)
    )


@pytest.mark.parametrize("value", [0, 0.0, 0.5, 0.999, np.float64(0.1), np.int64(0)])
def test_a_rate_lies_below_one(value):
    errors.check_rate("p", value)


@pytest.mark.parametrize("value", [1, 1.0, 1.5, -0.1, -1, nan, inf, np.int64(1)])
def test_a_rate_out_of_range(value):
    refuses(f"p must lie in [0, 1), got {value!r}; a rate of 1 would drop everything", errors.check_rate, "p", value)


@pytest.mark.parametrize("value", [None, "0.5", False, True, [0.1]])
def test_what_is_no_rate(value):
    refuses(f"p must be a number in [0, 1), got {value!r}", errors.check_rate, "p", value)


def test_a_choice_is_one_of_the_choices():
    errors.check_choice("placement", "pre", ["pre", "post"])
    errors.check_choice("placement", "post", iter(["pre", "post"]))


@pytest.mark.parametrize(
    "value, mend",
    [
        ("Pre", "; did you mean 'pre'?"),
        ("pots", "; did you mean 'post'?"),
        ("sideways", ""),
        ("", ""),
        (None, ""),
        (3, ""),
        (nan, ""),
        (True, ""),
        (["pre"], ""),
    ],
)
def test_another_choice_is_refused_with_the_nearest(value, mend):
    message = f"placement must be one of 'pre', 'post', got {value!r}{mend}"
    refuses(message, errors.check_choice, "placement", value, ["pre", "post"])


def test_a_text_says_something():
    errors.check_text("alt", "Four bars of equal height.")


@pytest.mark.parametrize("value", ["", "  \n", None, 3, nan, True])
def test_what_is_no_text(value):
    refuses(f"alt must be a sentence for the reader, got {value!r}", errors.check_text, "alt", value)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_a_floating_tensor(dtype):
    errors.check_floating("x", torch.zeros(2, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool, torch.complex64])
def test_a_tensor_of_another_kind(dtype):
    message = f"x must be floating point, got {dtype}; convert it with x.float()"
    refuses(message, errors.check_floating, "x", torch.zeros(2, dtype=dtype))


@pytest.mark.parametrize("value", [None, "3", 3.0, nan, inf, True, 0, [1.0, 2.0], np.int64(3), np.zeros(2)])
@pytest.mark.parametrize(
    "check", [errors.check_tensor, errors.check_floating, lambda n, x: errors.check_width(n, x, 4)]
)
def test_what_is_no_tensor(check, value):
    refuses(f"x must be a tensor, got {value!r}", check, "x", value)


@pytest.mark.parametrize("shape", [(4,), (2, 4), (0, 4), (2, 3, 5, 4)])
def test_a_tensor_of_the_right_width(shape):
    errors.check_tensor("x", torch.zeros(shape))
    errors.check_width("x", torch.zeros(shape), 4)


@pytest.mark.parametrize(
    "shape, message",
    [
        ((), "x must have a feature axis of 4, got a single number (no axes)"),
        ((5,), "x must have 4 features on its last axis, got shape (5,)"),
        ((4, 1), "x must have 4 features on its last axis, got shape (4, 1)"),
        ((2, 0), "x must have 4 features on its last axis, got shape (2, 0)"),
    ],
)
def test_a_tensor_of_another_width(shape, message):
    refuses(message, errors.check_width, "x", torch.zeros(shape), 4)

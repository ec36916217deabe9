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


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_a_floating_tensor(dtype):
    errors.check_floating("x", torch.zeros(2, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool, torch.complex64])
def test_a_tensor_of_another_kind(dtype):
    message = f"x must be floating point, got {dtype}; convert it with x.float()"
    refuses(message, errors.check_floating, "x", torch.zeros(2, dtype=dtype))
    refuses(message, errors.check_width, "x", torch.zeros(2, dtype=dtype), 2)


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


NO_TENSORS = [None, "3", 3.0, nan, True, 0, [1.0], np.int64(3)]


@pytest.mark.parametrize("value", NO_TENSORS)
@pytest.mark.parametrize(
    "check, arguments",
    [
        (errors.check_axes, ["batch"]),
        (errors.check_batch, [2]),
        (errors.check_square, [2]),
        (errors.check_labels, [2]),
    ],
)
def test_no_tensor_is_refused_as_such(check, arguments, value):
    refuses(f"x must be a tensor, got {value!r}", check, "x", value, *arguments)


def test_axes():
    errors.check_axes("x", torch.zeros(2, 3), "batch", "channels")
    errors.check_axes("x", torch.zeros(2, 4, 3), "batch", "channels")
    message = "x must have at least the axes (batch, channels), got shape (3,)"
    refuses(message, errors.check_axes, "x", torch.zeros(3), "batch", "channels")


def test_a_batch():
    for size in (1, 4):
        errors.check_batch("time", torch.zeros(size), 4)
    refuses(
        "time must hold 4 samples, or 1 for them all, got shape (3, 2)", errors.check_batch, "time", torch.ones(3, 2), 4
    )
    refuses("time must have at least the axes (batch), got shape ()", errors.check_batch, "time", torch.tensor(0.5), 4)


def test_squares():
    errors.check_square("images", torch.zeros(0, 8, 8), 8)
    for shape in ((8, 8), (2, 8, 7), (2, 1, 8, 8)):
        message = f"images must have shape (batch, 8, 8), got {shape}"
        refuses(message, errors.check_square, "images", torch.zeros(shape), 8)
    refuses(
        "images must be floating point, got torch.int64; convert it with images.float()",
        errors.check_square,
        "images",
        torch.zeros(2, 8, 8, dtype=torch.int64),
        8,
    )


@pytest.mark.parametrize("labels", [torch.tensor([0, 9]), torch.tensor([3], dtype=torch.int32), torch.arange(0)])
def test_labels(labels):
    errors.check_labels("labels", labels, 10)


@pytest.mark.parametrize(
    "labels, seen",
    [
        (torch.tensor([0, 10]), "0 to 10"),
        (torch.tensor([-1, 3]), "-1 to 3"),
        (torch.tensor([0.0, 1.0]), "torch.float32"),
        (torch.tensor([True]), "torch.bool"),
        (torch.zeros(0), "torch.float32"),
    ],
)
def test_what_is_no_label(labels, seen):
    refuses(f"labels must be whole numbers from 0 to 9, got {seen}", errors.check_labels, "labels", labels, 10)


def test_tensors_of_the_same_length():
    errors.check_same_length("tensors", [torch.zeros(3), torch.zeros(3, 2)])
    message = "tensors must all have the same number of rows, at least 1, got "
    refuses(message + "[3, 2]", errors.check_same_length, "tensors", [torch.zeros(3), torch.zeros(2)])
    refuses(message + "[0]", errors.check_same_length, "tensors", [torch.zeros(0)])
    refuses(message + "[]", errors.check_same_length, "tensors", [])
    refuses("tensors must be a tensor, got None", errors.check_same_length, "tensors", [None])


def test_pieces_of_a_projection():
    errors.check_pieces("projected", torch.zeros(2, 12), 6)
    message = "projected must be (batch, a multiple of 6), got shape "
    refuses(message + "(2, 10)", errors.check_pieces, "projected", torch.zeros(2, 10), 6)
    refuses(message + "(2, 3, 12)", errors.check_pieces, "projected", torch.zeros(2, 3, 12), 6)


def test_the_same_shape():
    errors.check_same_shape("x", torch.zeros(2, 3), "y", torch.zeros(2, 3))
    message = "x must have the shape of y, (2, 3), got (2, 4)"
    refuses(message, errors.check_same_shape, "x", torch.zeros(2, 4), "y", torch.zeros(2, 3))

import re

import pytest
import torch

from residual_edu import errors
from residual_edu.errors import InvalidInput

pytestmark = pytest.mark.usefixtures("as_installed")


def refuses(message, check, *arguments):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        check(*arguments)


def test_one_to_three_axes():
    for axes in (1, 2, 3):
        errors.check_data_dim("data_dim", axes)
    refuses("data_dim must be 1, 2 or 3 (text, images, volumes), got 4", errors.check_data_dim, "data_dim", 4)
    refuses("data_dim must be at least 1, got 0", errors.check_data_dim, "data_dim", 0)
    refuses("data_dim must be a whole number, got 2.0", errors.check_data_dim, "data_dim", 2.0)


@pytest.mark.parametrize(
    "shape, axes, wanted",
    [
        ((2, 5, 3), 1, "positions, 4"),
        ((2, 5), 1, "positions, 4"),
        ((2, 5, 4), 2, "height, width, 4"),
        ((2, 5, 5, 4), 3, "depth, height, width, 4"),
        ((2, 0, 4), 1, "positions, 4"),
        ((2, 5, 0, 4), 2, "height, width, 4"),
    ],
)
def test_shapes(shape, axes, wanted):
    errors.check_shape("x", torch.zeros(2, *[5] * axes, 4), axes, 4)
    message = f"x must have shape (batch, {wanted}), got {shape}"
    refuses(message, errors.check_shape, "x", torch.zeros(shape), axes, 4)


def test_lengths():
    assert errors.check_lengths("target", 3, 2) == errors.check_lengths("target", [3, 3], 2) == (3, 3)
    refuses("target must be a number, or one for each of 2 axes, got [1]", errors.check_lengths, "target", [1], 2)
    refuses("target must be a whole number, got 'a'", errors.check_lengths, "target", "ab", 2)
    refuses("target must be at least 1, got 0", errors.check_lengths, "target", (1, 0), 2)


def test_what_fits():
    errors.check_fits("target", [1, 2], (1, 3))
    refuses("target must be at most (1, 3), got (2, 2)", errors.check_fits, "target", [2, 2], (1, 3))


@pytest.mark.parametrize("shape", [(2, 0, 4), (2, 3, 0, 4)])
def test_positions(shape):
    for some in ((2, 4), (0, 4), (0, 3, 4), (2, 1, 4), (2, 3, 4, 0)):
        errors.check_some_positions("x", torch.zeros(some))
    message = f"x must have at least 1 position along each axis, got shape {shape}"
    refuses(message, errors.check_some_positions, "x", torch.zeros(shape))

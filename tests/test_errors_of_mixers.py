"""Checks of mixers and of the signals that they mix."""

import re

import pytest
import torch
from torch import nn

from residual_edu import errors

pytestmark = pytest.mark.usefixtures("as_installed")


class OfThree(nn.Module):
    def forward(self, query, key, value, *, conditioning=None):
        return value


class OfOne(nn.Module):
    def forward(self, x, conditioning=None):
        return x


class OfAny(nn.Module):
    def forward(self, *signals, **options):
        return signals[0]


class OfTwo(nn.Module):
    def forward(self, query, memory, *, conditioning=None):
        return query


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_signals_of_one_to_three_axes(axes):
    errors.check_space("x", torch.zeros(2, *[3] * axes, 4), 4)


@pytest.mark.parametrize(
    "x, message",
    [
        (torch.zeros(2, 4), "x must be (batch, 1 to 3 axes of space, channels), got shape (2, 4)"),
        (
            torch.zeros(1, 1, 1, 1, 1, 4),
            "x must be (batch, 1 to 3 axes of space, channels), got shape (1, 1, 1, 1, 1, 4)",
        ),
        (torch.zeros(2, 3, 5), "x must have 4 features on its last axis, got shape (2, 3, 5)"),
        (torch.zeros(2, 3, 4).long(), "x must be floating point, got torch.int64; convert it with x.float()"),
        (None, "x must be a tensor, got None"),
    ],
)
def test_what_is_no_signal(x, message):
    with pytest.raises(errors.InvalidInput, match=f"^{re.escape(message)}$"):
        errors.check_space("x", x, 4)


def test_equally_many_axes():
    errors.check_same_axes("key", torch.zeros(2, 3, 4), "query", torch.zeros(2, 5, 4))
    message = "key must have as many axes as query, got shapes (2, 4) and (2, 5, 4)"
    with pytest.raises(errors.InvalidInput, match=f"^{re.escape(message)}$"):
        errors.check_same_axes("key", torch.zeros(2, 4), "query", torch.zeros(2, 5, 4))


def test_what_a_mixer_takes():
    assert [errors.check_mixer("mixer", mixer, 3, 1) for mixer in (OfThree(), OfOne(), OfAny())] == [3, 1, 3]


@pytest.mark.parametrize(
    "mixer, counts, message",
    [
        (OfTwo(), (3, 1), "mixer must take query, key and value or one signal, and conditioning=, got OfTwo.forward"),
        (
            OfOne(),
            (3,),
            "mixer must take query, key and value, and conditioning=, got OfOne.forward(x, conditioning=None)",
        ),
        (
            nn.Identity(),
            (3, 1),
            "mixer must take query, key and value or one signal, and conditioning=, got Identity.forw",
        ),
    ],
)
def test_what_is_no_mixer(mixer, counts, message):
    with pytest.raises(errors.InvalidInput, match=f"^{re.escape(message)}"):
        errors.check_mixer("mixer", mixer, *counts)


def test_what_does_not_follow():
    x = torch.ones(2, requires_grad=True)
    errors.check_follows("y", 2 * x)
    message = "y must have a gradient with respect to x, got one without; detach nothing on the way"
    with pytest.raises(errors.InvalidInput, match=f"^{re.escape(message)}$"):
        errors.check_follows("y", (2 * x).detach())

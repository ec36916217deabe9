"""Checks of sequences of tokens: what passes in silence, and what is said of the rest."""

import numpy as np
import pytest
import torch

from residual_edu import errors
from residual_edu.errors import InvalidInput

pytestmark = pytest.mark.usefixtures("as_installed")


def test_what_passes():
    for lengths in ({}, {"tokens": 3}, {"channels": 4}, {"tokens": 3, "channels": 4}):
        errors.check_tokens("x", torch.zeros(2, 3, 4), **lengths)
    (
        errors.check_registers_inside(0, 4, 4),
        errors.check_registers_inside(7, 4, 11),
        errors.check_registers_inside(7, 4, 12),
    )
    errors.check_rows(12, 3), errors.check_rows(3, 3)
    errors.check_whole("n", 0), errors.check_whole("n", 7), errors.check_whole("n", np.int64(7))
    errors.check_images("images", torch.zeros(5, 8, 8, 3), 8, 3)


@pytest.mark.parametrize(
    ("shape", "lengths", "message"),
    [
        ((2, 4), {}, r"x must have shape \(batch, tokens, channels\), got \(2, 4\)"),
        ((2, 3, 3, 4), {"channels": 4}, r"x must have shape \(batch, tokens, 4\), got \(2, 3, 3, 4\)"),
        ((2, 3, 4), {"tokens": 5}, r"x must have shape \(batch, 5, channels\), got \(2, 3, 4\)"),
        ((2, 5, 1), {"tokens": 5, "channels": 4}, r"x must have shape \(batch, 5, 4\), got \(2, 5, 1\)"),
    ],
)
def test_tokens(shape, lengths, message):
    with pytest.raises(InvalidInput, match=f"^{message}$"):
        errors.check_tokens("x", torch.zeros(shape), **lengths)


def test_tokens_are_numbers():
    with pytest.raises(InvalidInput, match=r"^x must be floating point, got torch\.int64; "):
        errors.check_tokens("x", torch.zeros(2, 3, 4, dtype=torch.long))


@pytest.mark.parametrize("start, tokens", [(8, 11), (11, 11), (0, 3)])
def test_registers_beyond_the_end(start, tokens):
    message = f"registers {start} to {start + 3} must lie inside the sequence, got {tokens} tokens; register_start_idx"
    with pytest.raises(InvalidInput, match=f"^{message} is how many tokens stand before them$"):
        errors.check_registers_inside(start, 4, tokens)


def test_tokens_that_leave_a_row_unfinished():
    with pytest.raises(InvalidInput, match="^the tokens must fill whole rows of 4, got 11 tokens; pad .* 1 more$"):
        errors.check_rows(11, 4)


@pytest.mark.parametrize("value", [-1, 1.0, True, "2", None])
def test_whole_numbers(value):
    with pytest.raises(InvalidInput, match=f"^n must be a whole number, at least 0, got {value!r}$"):
        errors.check_whole("n", value)


@pytest.mark.parametrize("shape", [(5, 8, 8), (5, 3, 8, 8), (5, 8, 9, 3), (5, 8, 8, 1)])
def test_images(shape):
    got = ", ".join(map(str, shape))
    with pytest.raises(InvalidInput, match=rf"^images must have shape \(batch, 8, 8, 3\), got \({got}\)$"):
        errors.check_images("images", torch.zeros(shape), 8, 3)

"""Attention mixers that cannot be built, and signals that they cannot mix: each message, with its numbers."""

import re

import pytest
import torch

from residual_edu import InvalidInput
from residual_edu.mixers import Attention

pytestmark = pytest.mark.usefixtures("as_installed")


@pytest.mark.parametrize(
    "sizes, options, message",
    [
        ((0, 1), {}, "hidden_dim must be at least 1, got 0"),
        ((12, 0), {}, "num_heads must be at least 1, got 0"),
        ((12, 5), {}, "hidden_dim must be divisible by 5 (num_heads), got 12"),
        ((12, 2), {"attn_dropout": 1.0}, "attn_dropout must lie in [0, 1), got 1.0; a rate of 1 would drop everything"),
        ((12, 2), {"rope_base": -1.0}, "rope_base must be a finite number above 0, got -1.0"),
        (
            (12, 2),
            {"rope_spatial_dims": (4, 4)},
            "head_dim must be divisible by 4 (a pair of features for each of the axes, 2), got 6",
        ),
        ((24, 2), {"rope_spatial_dims": (4, 0)}, "lengths must be at least 1, got 0"),
    ],
)
def test_mixers_that_cannot_be(sizes, options, message):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        Attention(*sizes, apply_qk_norm=False, use_rope=True, **options)


SPACE = "must be (batch, 1 to 3 axes of space, channels), got shape"
AXES = "key must have as many axes as query, got shapes (2, 4, 12) and (2, 2, 2, 12)"


@pytest.mark.parametrize(
    "shapes, options, message",
    [
        ([(4, 12)] * 3, {}, f"query {SPACE} (4, 12)"),
        ([(2, 1, 1, 1, 1, 12)] * 3, {}, f"query {SPACE} (2, 1, 1, 1, 1, 12)"),
        ([(2, 4, 12), (2, 4, 8), (2, 4, 12)], {}, "key must have 12 features on its last axis, got shape (2, 4, 8)"),
        ([(3, 4, 12), (2, 4, 12), (3, 4, 12)], {}, "key must hold 3 samples, or 1 for them all, got shape (2, 4, 12)"),
        ([(2, 4, 12), (2, 4, 12), (2, 5, 12)], {}, "value must have the shape of key, (2, 4, 12), got (2, 5, 12)"),
        ([(2, 3, 12)] * 3, {"hidden_dim": 10}, "query must have 10 features on its last axis, got shape (2, 3, 12)"),
        ([(2, 2, 2, 12), (2, 4, 12), (2, 4, 12)], {}, AXES),
        (
            [(2, 2, 2, 12)] * 3,
            {},
            "head_dim must be divisible by 4 (a pair of features for each of the axes, 2), got 6",
        ),
        (
            [(2, 5, 12)] * 3,
            {"rope_spatial_dims": (2, 2), "num_heads": 1},
            "rope_spatial_dims must hold the signal's 5 positions, got (2, 2), 4",
        ),
        (
            [(2, 5, 12), (2, 3, 12), (2, 3, 12)],
            {"is_causal": True},
            "queries must be the last positions of keys, got 5 queries and 3 keys",
        ),
    ],
)
def test_signals_that_cannot_be_mixed(shapes, options, message):
    sizes = {"hidden_dim": 12, "num_heads": 2, "apply_qk_norm": False, "use_rope": True}
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        Attention(**(sizes | options))(*map(torch.zeros, shapes))


@pytest.mark.parametrize("nth, name", [(0, "query"), (1, "key"), (2, "value")])
def test_whole_numbers_cannot_be_mixed(nth, name):
    signals = [torch.zeros(2, 3, 12) for _ in range(3)]
    signals[nth] = signals[nth].long()
    with pytest.raises(InvalidInput, match=rf"^{name} must be floating point, got torch\.int64; "):
        Attention(12, 2, False, False)(*signals)

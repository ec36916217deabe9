"""Checks of whole shares, masks, angles: what passes, and what is said of what does not."""

import re

import pytest
import torch

from residual_edu import errors

pytestmark = pytest.mark.usefixtures("as_installed")

TRUE = torch.ones(2, 3, dtype=torch.bool)


@pytest.mark.parametrize(
    "check, good, bad, message",
    [
        (
            errors.check_divisible,
            ("hidden_dim", 12, 3, "num_heads"),
            ("hidden_dim", 12, 5, "num_heads"),
            "hidden_dim must be divisible by 5 (num_heads), got 12",
        ),
        (
            errors.check_divisible,
            ("hidden_dim", 12, 3, "num_heads"),
            ("hidden_dim", 0, 3, "num_heads"),
            "hidden_dim must be at least 1, got 0",
        ),
        (
            errors.check_last_queries,
            (3, 3),
            (4, 3),
            "queries must be the last positions of keys, got 4 queries and 3 keys",
        ),
        (
            errors.check_mask,
            ("mask", TRUE),
            ("mask", TRUE.float()),
            "mask must be boolean, True where a query may look, got torch.float32; numbers go to bias",
        ),
        (
            errors.check_mask,
            ("mask", TRUE.tril()),
            ("mask", TRUE.tril(-1)),
            "mask must let each query look at one key at least, got a row that is all False",
        ),
        (errors.check_mask, ("mask", TRUE), ("mask", [True]), "mask must be a tensor, got [True]"),
        (
            errors.check_exact_shape,
            ("angles", TRUE, (2, 3)),
            ("angles", TRUE, (3, 2)),
            "angles must have shape (3, 2), got (2, 3)",
        ),
        (
            errors.check_positions,
            ("rope_spatial_dims", (2, 3), 6),
            ("rope_spatial_dims", (2, 3), 5),
            "rope_spatial_dims must hold the signal's 5 positions, got (2, 3), 6",
        ),
    ],
)
def test_what_passes_and_what_is_said(check, good, bad, message):
    check(*good)
    with pytest.raises(errors.InvalidInput, match=f"^{re.escape(message)}$"):
        check(*bad)

"""What the residual networks refuse, and what torch does."""

import re
from functools import partial

import pytest
import torch
from torch import nn

from residual_edu import Dropout, InvalidInput, LayerNorm, ResidualBlock, ResidualNetwork, SimpleFeedForward

pytestmark = pytest.mark.usefixtures("as_installed")
C = 6
NORM, FEED_FORWARD = partial(LayerNorm, C), partial(SimpleFeedForward, C, 2)


def block(dropout=nn.Identity):
    return partial(ResidualBlock, *[nn.Identity] * 4, FEED_FORWARD, NORM, dropout)


def made(num_blocks=2, data_dim=2, **changes):
    parts = {"in_proj_cfg": nn.Linear, "out_proj_cfg": nn.Linear, "norm_cfg": NORM, "block_cfg": block()}
    parts |= {"dropout_in_cfg": nn.Identity} | changes
    inputs = {"input": torch.zeros(3, 2, 5, 3), "condition": None}
    return lambda: ResidualNetwork(3, 4, num_blocks, C, data_dim, **parts)(inputs)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (made(num_blocks=0), "num_blocks must be a whole number, at least 1, got 0"),
        (made(block_cfg=block()()), "block_cfg must build each block's own weights"),
        (made(in_proj_cfg=partial(nn.Linear, in_features=5)), "in_features must be 3, as the network sets it, got 5"),
        (made(target_size=0), "target_size must be a whole number, at least 1, got 0"),
        (made(target_size=(2, 2, 2)), "target_size must have 2 lengths, got (2, 2, 2)"),
        (made(out_proj_cfg=nn.Linear(C, 9)), "logits must be floating point of shape (..., 4), got"),
        (made(data_dim=1), "input must be floating point of shape (batch, space, 3), got"),
        (
            made(gradient_checkpointing=True, block_cfg=block(partial(Dropout, 0.1, torch.Generator()))),
            "gradient_checkpointing, got a generator: a block's second run would draw other numbers from it",
        ),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{re.escape(words)}"):
        call()


@pytest.mark.parametrize(
    "call", [made(target_size=6), made(block_cfg=FEED_FORWARD), made(condition_in_proj_cfg=nn.Linear)]
)
def test_what_is_an_error_of_torchs_or_pythons_own(call):
    with pytest.raises((IndexError, TypeError)):
        call()

"""What the networks refuse: what was given and how to mend it."""

import re
from functools import partial

import pytest
import torch
from torch import nn

from residual_edu import (
    ClassificationResNet,
    Dropout,
    InvalidInput,
    LayerNorm,
    LazyConfig,
    ResidualBlock,
    ResidualNetwork,
    SimpleFeedForward,
)

C = 6
FEED_FORWARD = LazyConfig(SimpleFeedForward)(d_model=C, d_ff=2)


def block(mlp=FEED_FORWARD, dropout=nn.Identity):
    left_out, norm = nn.Identity, LazyConfig(LayerNorm)(dim=C)
    return partial(ResidualBlock, left_out, left_out, left_out, left_out, mlp, norm, dropout)


SIZES = {"in_channels": 3, "out_channels": 4, "num_blocks": 2, "hidden_dim": C}
PARTS = {
    "data_dim": 2,
    "in_proj_cfg": nn.Linear,
    "out_proj_cfg": nn.Linear,
    "norm_cfg": LazyConfig(LayerNorm)(dim=C),
    "block_cfg": block(),
    "dropout_in_cfg": nn.Identity,
}
X = torch.zeros(2, 4, 5, 3)


def run(inputs, **changes):
    return lambda kind: kind(**(SIZES | PARTS | changes))(inputs)


def made(**changes):
    return run({"input": X, "condition": None}, **changes)


def told(condition):
    return run({"input": X, "condition": condition}, condition_in_proj_cfg=nn.Linear)


KEYS = "inputs must have the keys 'input', 'condition', got "
WITH_COINS = {"gradient_checkpointing": True, "block_cfg": block(dropout=partial(Dropout, 0.1, torch.Generator()))}


@pytest.mark.parametrize("kind", [ResidualNetwork, ClassificationResNet])
@pytest.mark.parametrize(
    ("call", "words"),
    [
        *((made(**{name: 0}), f"{name} must be at least 1, got 0") for name in SIZES),
        (made(data_dim=4), "data_dim must be 1, 2 or 3 (text, images, volumes), got 4"),
        (made(gradient_checkpointing=1), "gradient_checkpointing must be True or False, got 1"),
        (made(**WITH_COINS), "gradient_checkpointing runs each block twice, and would draw other random numbers"),
        (made(block_cfg=block()()), "block_cfg must be something to build a module from, got a built ResidualBlock"),
        (made(block_cfg=block(SimpleFeedForward(C, 2))), "block_cfg must build new weights for each block, blocks"),
        (made(block_cfg=FEED_FORWARD), "block_cfg, block 0, must take (x, condition), SimpleFeedForward.forward takes"),
        (made(in_proj_cfg=nn.ReLU), "ReLU got an unexpected keyword argument 'in_features'; it takes inplace"),
        (
            made(in_proj_cfg=partial(nn.Linear, in_features=5)),
            "in_proj_cfg has in_features=5, the network sets it to 3",
        ),
        (made(out_proj_cfg=partial(nn.Linear, out_features=9)), "out_proj_cfg has out_features=9, the network sets it"),
        (
            made(condition_in_proj_cfg=partial(nn.Linear, in_features=5)),
            "condition_in_proj_cfg has in_features=5, the network sets it to 6; leave in_features out",
        ),
        (made(target_size=0), "target_size must be at least 1, got 0"),
        (made(target_size=(2, 1.5)), "target_size must be a whole number, got 1.5"),
        (
            made(target_size=(2, 2, 2)),
            "target_size must be one for all, or a list with one for each of 2 axes, got [2,",
        ),
        (made(target_size=5), "target_size must be at most (4, 5), got (5, 5)"),
        (run(X), KEYS + "a Tensor"),
        (run({}), KEYS + "none"),
        (run({"input": X}), KEYS + "'input'"),
        (run({"input": X, "conditon": None}), KEYS + "'input', 'conditon'"),
        (run({"input": X, "condition": None, 3: 4}), KEYS + "'input', 'condition', 3"),
        (run({"input": None, "condition": None}), "input must be a tensor, got None"),
        (run({"input": X.long(), "condition": None}), "input must be floating point, got torch.int64; convert it"),
        (
            run({"input": X[..., :2], "condition": None}),
            "input must have shape (batch, height, width, 3), got (2, 4, 5, 2)",
        ),
        (run({"input": X[0], "condition": None}), "input must have shape (batch, height, width, 3), got (4, 5, 3)"),
        (
            made(in_proj_cfg=nn.Linear(3, 8)),
            "in_proj(input) must have shape (batch, height, width, 6), got (2, 4, 5, 8)",
        ),
        (made(out_proj_cfg=nn.Linear(C, 9)), "logits must have 4 features on its last axis, got shape (2,"),
        (told(None), "condition must be given for condition_in_proj, got None"),
        (told("cat"), "condition must be a tensor, got 'cat'"),
        (told(torch.zeros(2, C).long()), "condition must be floating point, got torch.int64; convert it"),
        (told(torch.zeros(2, 5)), "condition must have 6 features on its last axis, got shape (2, 5)"),
    ],
)
@pytest.mark.usefixtures("as_installed")
def test_what_is_refused(kind, call, words):
    with pytest.raises(InvalidInput, match=f"^{re.escape(words)}"):
        call(kind)

"""What the networks refuse, each with what came and how to mend it."""

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

pytestmark = pytest.mark.usefixtures("as_installed")

C = 6


FEED_FORWARD = LazyConfig(SimpleFeedForward)(d_model=C, d_ff=2)


def block(mlp=FEED_FORWARD, dropout=nn.Identity):
    left_out, norm = nn.Identity, LazyConfig(LayerNorm)(dim=C)
    return partial(ResidualBlock, left_out, left_out, left_out, left_out, mlp, norm, dropout)


SETTINGS = {
    "in_channels": 3,
    "out_channels": 4,
    "num_blocks": 2,
    "hidden_dim": C,
    "data_dim": 2,
    "in_proj_cfg": nn.Linear,
    "out_proj_cfg": nn.Linear,
    "norm_cfg": LazyConfig(LayerNorm)(dim=C),
    "block_cfg": block(),
    "dropout_in_cfg": nn.Identity,
}


@pytest.mark.parametrize("kind", [ResidualNetwork, ClassificationResNet])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(({name: 0}, f"{name} must be at least 1, got 0") for name in list(SETTINGS)[:5]),
        ({"data_dim": 4}, r"data_dim must be 1, 2 or 3 \(text, images, volumes\), got 4"),
        (
            {"block_cfg": block()()},
            "block_cfg must be something to build a module from, got a built ResidualBlock: all blocks would be this "
            r"one module and share its weights; give LazyConfig\(ResidualBlock\)\(\.\.\.\), or a function that .*",
        ),
        (
            {"block_cfg": block(mlp=SimpleFeedForward(C, 2))},
            r"block_cfg must build new weights for each block, blocks 0 and 1 share mlp\.linear1\.weight; "
            "give a config wherever a built module stands in it",
        ),
        (
            {"in_proj_cfg": LazyConfig(nn.Linear)(in_features=5)},
            "in_proj_cfg has in_features=5, the network's sizes ask for 3; leave in_features out",
        ),
        (
            {"out_proj_cfg": {"__target__": "torch.nn.Linear", "out_features": 9}},
            "out_proj_cfg has out_features=9, the network's sizes ask for 4; leave out_features out",
        ),
        ({"in_proj_cfg": nn.ReLU}, "ReLU got an unexpected keyword argument 'in_features'; it takes inplace"),
        (
            {"block_cfg": FEED_FORWARD},
            r"block_cfg, block 0, must take \(x, condition\), SimpleFeedForward\.forward takes \(x\); .*",
        ),
        ({"target_size": 0}, "target_size must be at least 1, got 0"),
        ({"target_size": (2, 2, 2)}, r"target_size must be a number, or one for each of 2 axes, got \(2, 2, 2\)"),
        ({"target_size": (2, 1.5)}, r"target_size must be a whole number, got 1\.5"),
        (
            {"gradient_checkpointing": True, "block_cfg": block(dropout=partial(Dropout, 0.1, torch.Generator()))},
            r"gradient_checkpointing runs each block twice, and 0\.dropout, a Dropout, would flip other coins the "
            "second time; leave its generator out, torch's own is wound back",
        ),
    ],
)
def test_what_cannot_be_built(kind, changes, message):
    with pytest.raises(InvalidInput, match=f"^{message}$"):
        kind(**(SETTINGS | changes))


X = torch.zeros(2, 4, 5, 3)


@pytest.mark.parametrize("kind", [ResidualNetwork, ClassificationResNet])
@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (X, "inputs must have the keys 'input', 'condition', got a Tensor"),
        ({}, "inputs must have the keys 'input', 'condition', got none"),
        ({"input": X}, "inputs must have the keys 'input', 'condition', got 'input'"),
        (
            {"input": X, "conditon": None},
            "inputs must have the keys 'input', 'condition', got 'input', 'conditon'; did you mean 'condition' by .*",
        ),
        ({"inputs": X, "condition": None}, ".*got 'inputs', 'condition'; did you mean 'input' by 'inputs'[?]"),
        ({"input": X, "condition": None, "label": 3}, ".*got 'input', 'condition', 'label'"),
        ({"input": None, "condition": None}, "input must be given, got None"),
        ({"input": X.long(), "condition": None}, r"input must be floating point, got torch\.int64; .*"),
        (
            {"input": X[..., :2], "condition": None},
            r"input must have shape \(batch, height, width, 3\), got \(2, 4, 5, 2\)",
        ),
        ({"input": X[0], "condition": None}, r"input must have shape \(batch, height, width, 3\), got \(4, 5, 3\)"),
    ],
)
def test_what_cannot_be_fed(kind, inputs, message):
    with pytest.raises(InvalidInput, match=f"^{message}$"):
        kind(**SETTINGS)(inputs)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (None, "condition must be given, got None"),
        (torch.zeros(2, 5), r"condition must have 6 features on its last axis, got shape \(2, 5\)"),
        (torch.zeros(2, C, dtype=torch.long), r"condition must be floating point, got torch\.int64; .*"),
        ("cat", "condition must be a tensor, got 'cat'"),
    ],
)
def test_a_projected_condition_must_fit(condition, message):
    made = ResidualNetwork(**SETTINGS, condition_in_proj_cfg=nn.Linear)
    with pytest.raises(InvalidInput, match=f"^{message}$"):
        made({"input": X, "condition": condition})


@pytest.mark.parametrize("kind", [ResidualNetwork, ClassificationResNet])
def test_a_target_larger_than_the_output_is_refused(kind):
    with pytest.raises(InvalidInput, match=r"^target_size must be at most \(4, 5\), got \(5, 5\)$"):
        kind(**SETTINGS, target_size=5)({"input": X, "condition": None})


def test_a_projection_out_into_another_width_is_refused():
    made = ResidualNetwork(**(SETTINGS | {"out_proj_cfg": nn.Linear(C, 9)}))
    with pytest.raises(InvalidInput, match=r"^logits must have 4 features on its last axis, got shape \(2, 4, 5, 9\)$"):
        made({"input": X, "condition": None})


def test_a_projection_into_another_width_is_refused():
    made = ResidualNetwork(**(SETTINGS | {"in_proj_cfg": nn.Linear(3, 8)}))
    with pytest.raises(
        InvalidInput, match=r"^in_proj\(input\) must have shape \(batch, height, width, 6\), got .*8\)$"
    ):
        made({"input": X, "condition": None})

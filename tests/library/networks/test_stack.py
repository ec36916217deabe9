"""Building from what a network is given, completed with what it knows; blocks that are new, each time."""

import re
from functools import partial

import pytest
import torch
from torch import nn

from residual_edu import Dropout, InvalidInput
from residual_edu.networks.stack import build_blocks, build_with, check_stack

MAPPING = {"__target__": "torch.nn.Linear", "bias": False}


class Block(nn.Module):
    def __init__(self, rate=0.0, inner=nn.Identity):
        super().__init__()
        self.rate, self.inner = rate, inner if isinstance(inner, nn.Module) else inner()

    def forward(self, x, condition):
        return self.inner(x)


@pytest.mark.parametrize("spec", [nn.Linear, partial(nn.Linear, bias=False), MAPPING, lambda **k: nn.Linear(**k)])
def test_the_network_completes_what_it_is_given(spec):
    made = build_with("in_proj_cfg", spec, in_features=2, out_features=5)
    assert made.weight.shape == (5, 2)
    assert (made.bias is None) is (isinstance(spec, partial | dict))


def test_a_value_that_agrees_may_be_given_twice():
    assert build_with("in_proj_cfg", partial(nn.Linear, in_features=2), in_features=2, out_features=5).in_features == 2


def test_a_built_module_is_returned_as_it_is():
    made = nn.Linear(2, 5)
    assert build_with("in_proj_cfg", made, in_features=3) is made


def test_each_block_gets_its_own_keywords_and_its_own_parameters():
    spec = partial(Block, inner=partial(nn.Linear, 2, 2))
    blocks = build_blocks("block_cfg", spec, [{"rate": rate} for rate in (0.0, 0.1, 0.2)])
    assert isinstance(blocks, nn.ModuleList) and [block.rate for block in blocks] == [0.0, 0.1, 0.2]
    assert len({id(p) for p in blocks.parameters()}) == 6
    check_stack("block_cfg", blocks, "x", "condition", checkpointing=True)


def test_a_generator_matters_under_checkpointing_alone():
    check_stack("block_cfg", [WITH_GENERATOR], "x")


SHARED, WITH_GENERATOR = nn.Linear(2, 2), nn.Sequential(Dropout(0.1, torch.Generator()))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: build_with("cfg", 3),
            "cfg must be a module, what returns one, or a mapping, got 3",
        ),
        (
            lambda: build_with("cfg", partial(nn.Linear, in_features=2), in_features=4),
            "cfg has in_features=2, the network sets it to 4; leave in_features out",
        ),
        (
            lambda: build_with("cfg", MAPPING | {"in_features": 2}, in_features=4),
            "cfg has in_features=2, the network sets it to 4; leave in_features out",
        ),
        (
            lambda: build_with("cfg", nn.ReLU, in_features=4),
            "ReLU got an unexpected keyword argument 'in_features'; it takes inplace",
        ),
        (
            lambda: build_blocks("cfg", nn.ReLU(), [{}]),
            "cfg must be something to build a module from, got a built ReLU: all blocks would be this one module and "
            "share its weights; give LazyConfig(ReLU)(...), or a function that returns a new one",
        ),
        (
            lambda: build_blocks("cfg", lambda: SHARED, [{}] * 2),
            "cfg must build new weights for each block, blocks 0 and 1 share weight; "
            "replace a built module inside it by a config",
        ),
        (
            lambda: build_blocks("cfg", partial(Block, inner=SHARED), [{}] * 3),
            "cfg must build new weights for each block, blocks 0 and 1 share inner.weight; ",
        ),
        (
            lambda: check_stack("cfg", [Block(), nn.ReLU()], "x", "condition"),
            "cfg, block 1, must take (x, condition), ReLU.forward takes (input); wrap it in a module that fits",
        ),
        (
            lambda: check_stack("cfg", [nn.ReLU(), WITH_GENERATOR], "x", checkpointing=True),
            "gradient_checkpointing runs each block twice, and would draw other random numbers the second time: "
            "blocks.1.0, a Dropout, has a generator of its own; leave it out",
        ),
    ],
)
@pytest.mark.usefixtures("as_installed")
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{re.escape(words)}"):
        call()

import re
from functools import partial

import pytest
import torch
from torch import nn

from residual_edu import Dropout, errors
from residual_edu.errors import InvalidInput

pytestmark = pytest.mark.usefixtures("as_installed")


def refuses(message, check, *arguments, **keywords):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        check(*arguments, **keywords)


def test_the_keys_in_any_order():
    errors.check_keys("batch", {"b": 1, "a": None}, ["a", "b"])


@pytest.mark.parametrize(
    "mapping, got",
    [
        ({}, "none"),
        ({"input": 1}, "'input'"),
        ({"input": 1, "condition": 2, 3: 4}, "'input', 'condition', 3"),
        ({"input": 1, "Condition": 2}, "'input', 'Condition'; did you mean 'condition' by 'Condition'?"),
        ([1, 2], "[1, 2]"),
    ],
)
def test_other_keys(mapping, got):
    message = f"batch must have the keys 'input', 'condition', got {got}"
    refuses(message, errors.check_keys, "batch", mapping, ["input", "condition"])


def test_sizes():
    errors.check_sizes(depth=1, width=3)
    refuses("width must be at least 1, got 0", errors.check_sizes, depth=1, width=0)
    refuses("depth must be a whole number, got 1.5", errors.check_sizes, depth=1.5)


def test_something_to_build_from():
    for spec in (nn.ReLU, partial(nn.Linear, 2, 3), {"__target__": "torch.nn.ReLU"}, lambda: nn.ReLU()):
        errors.check_factory("block_cfg", spec)
    message = (
        "block_cfg must be something to build a module from, got a built ReLU: all blocks would be this one module and "
        "share its weights; give LazyConfig(ReLU)(...), or a function that returns a new one"
    )
    refuses(message, errors.check_factory, "block_cfg", nn.ReLU())


@pytest.mark.parametrize("spec", [partial(nn.Linear, in_features=2), {"__target__": "x", "in_features": 2}])
def test_sizes_that_a_config_gives_itself(spec):
    errors.check_agreement("in_proj_cfg", spec, {"in_features": 2, "out_features": 5})
    message = "in_proj_cfg has in_features=2, the network's sizes ask for 4; leave in_features out"
    refuses(message, errors.check_agreement, "in_proj_cfg", spec, {"in_features": 4})
    errors.check_agreement("in_proj_cfg", nn.Linear, {"in_features": 4})


def test_parameters_of_its_own():
    errors.check_own_parameters("block_cfg", [nn.Linear(2, 2), nn.Linear(2, 2), nn.ReLU()])
    shared = nn.Linear(2, 2)
    message = (
        "block_cfg must build new weights for each block, blocks 0 and 2 share 0.weight; "
        "give a config wherever a built module stands in it"
    )
    blocks = [nn.Sequential(shared), nn.Linear(2, 2), nn.Sequential(shared)]
    refuses(message, errors.check_own_parameters, "block_cfg", blocks)


def test_coins_from_torch():
    errors.check_no_generator("checkpointing", nn.Sequential(Dropout(0.1), nn.Dropout(0.1)))
    message = (
        "checkpointing runs each block twice, and 1, a Dropout, would flip other coins the second time; "
        "leave its generator out, torch's own is wound back"
    )
    model = nn.Sequential(nn.ReLU(), Dropout(0.1, torch.Generator()))
    refuses(message, errors.check_no_generator, "checkpointing", model)


class Block(nn.Module):
    def forward(self, x, condition):
        return x


def test_a_stack_of_blocks():
    errors.check_stack("block_cfg", nn.ModuleList([Block(), Block()]), run_twice=True)
    message = "block_cfg, block 1, must take (x, condition), ReLU.forward takes (input); wrap it in a module that fits"
    refuses(message, errors.check_stack, "block_cfg", nn.ModuleList([Block(), nn.ReLU()]), False)

"""Building from what a network is given, completed with what it knows; blocks that are new, each time."""

from functools import partial

import pytest
from torch import nn

from residual_edu.networks.stack import build_blocks, build_with
from tests.library.helpers import refused

MAPPING = {"__target__": "torch.nn.Linear", "bias": False}
SHARED = nn.Linear(2, 2)
OTHER, ONCE = "in_features must be 4, as the network sets it, got 2", "block_cfg must build each block's own weights"


@pytest.mark.parametrize(
    "spec",
    [nn.Linear, partial(nn.Linear, bias=False, in_features=2), MAPPING, lambda **k: nn.Linear(**k), nn.Linear(2, 5)],
)
def test_the_network_completes_what_it_is_given(spec):
    made = build_with(spec, in_features=2, out_features=5)
    assert made.weight.shape == (5, 2) and (made is spec) is isinstance(spec, nn.Module)
    assert (made.bias is None) is (isinstance(spec, partial | dict))


def test_each_block_gets_its_own_keywords_and_its_own_parameters():
    blocks = build_blocks(partial(nn.Linear, 2), [{"out_features": width} for width in (2, 3, 4)])
    assert isinstance(blocks, nn.ModuleList) and [block.out_features for block in blocks] == [2, 3, 4]
    assert build_blocks(SHARED, [{}])[0] is SHARED and len(build_blocks(nn.ReLU(), [{}] * 2)) == 2


test_what_is_refused = refused(
    (lambda: build_with(partial(nn.Linear, in_features=2), in_features=4), OTHER),
    (lambda: build_with(MAPPING | {"in_features": 2}, in_features=4), OTHER),
    (lambda: build_blocks(lambda: SHARED, [{}] * 2), ONCE),
    (lambda: build_blocks(lambda: nn.Sequential(nn.Linear(2, 2), SHARED), [{}] * 3), ONCE),
)

"""What a recorder refuses."""

import itertools
import re

import pytest
import torch
from torch import nn

from residual_edu.errors import InvalidInput
from residual_edu.gradient_flow import GradientFlowRecorder

from .stacks import loss, record, stack


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([], "blocks must name at least 1 module, got none"),
        (7, "blocks must be a list of modules, got 7; put it into [ ]"),
        (nn.ReLU(), "blocks must be a list of modules, got ReLU(); put it into [ ]"),
        ([3], "blocks[0] must be a module, got 3"),
        ([nn.ReLU()], "blocks[0], a ReLU, must be a module of model; keep blocks in an nn.ModuleList"),
    ],
)
def test_bad_blocks_are_refused(blocks, message):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        GradientFlowRecorder(stack(), blocks)


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize(("every", "message"), [(0, "at least 1, got 0"), (2.5, "a whole number, got 2.5")])
def test_a_bad_number_of_steps_is_refused(every, message):
    model = stack()
    with pytest.raises(InvalidInput, match=f"^every must be {message}$"):
        GradientFlowRecorder(model, model.blocks, every)


@pytest.mark.parametrize("steps", [1, 7])
def test_a_long_run_keeps_one_small_tensor_a_step(x, steps):
    model = stack()
    flow = record(model, x, steps)
    assert [step.numel() for step in flow.steps] == [20] * steps
    assert flow.step.runs == flow.step.hooks == [] and flow.step.inside == {}


def test_any_list_of_blocks_will_do(x):
    model = stack(depth=4)
    flow = record(model, x)
    for first, last in itertools.combinations(range(5), 2):
        with GradientFlowRecorder(model, iter(model.blocks[first:last])) as part:
            model.zero_grad()
            loss(model, x).backward()
        assert torch.equal(part.delta, flow.delta[:, first : last + 1])

"""Compiled blocks, and compiled models."""

import re
import warnings

import pytest
import torch
from torch import nn

from residual_edu.errors import InvalidInput
from residual_edu.gradient_flow import GradientFlowRecorder

from .stacks import expected, hooks, record, same, stack


@pytest.mark.parametrize("how", ["wrapped", "in place", "around"])
def test_a_compiled_model_is_refused(how):
    model = stack()
    if how == "wrapped":
        model = torch.compile(model, backend="eager")
    elif how == "in place":
        model.compile(backend="eager")
    else:
        blocks, model = model.blocks, nn.Sequential(torch.compile(model, backend="eager"))
    message = "model must not be compiled: it calls no hooks then; compile its blocks one by one, or none"
    flow = GradientFlowRecorder(model, blocks if how == "around" else model.blocks)
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"), flow:
        pass
    assert hooks(model) == 0


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize("in_place", [False, True])
def test_blocks_compiled_one_by_one_are_recorded(x, in_place):
    model = stack()
    want = expected(model, x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, while it compiles
        for place, block in enumerate(model.blocks):
            if in_place:
                block.compile(backend="eager")
            else:
                model.blocks[place] = torch.compile(block, backend="eager")
        flow = record(model, x, steps=2)
    assert hooks(model) == 0
    same(flow, want)
    torch.compiler.reset()

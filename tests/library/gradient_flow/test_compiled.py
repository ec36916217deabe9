"""Compiled blocks; a compiled model is refused (test_bad_input.py)."""

import warnings

import pytest
import torch

from .stacks import expected, hooks, record, same, stack


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

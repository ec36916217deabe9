"""What a recorder refuses."""

import re

import pytest
import torch
from torch import nn

from residual_edu.gradient_flow import GradientFlowRecorder
from residual_edu.old_errors import InvalidInput

from .stacks import expected, hooks, record, same, stack


def recorder(blocks=None, every=1):
    model = stack()
    return GradientFlowRecorder(model, model.blocks if blocks is None else blocks, every)


def entered(model, blocks=None):
    with GradientFlowRecorder(model, model.blocks if blocks is None else blocks):
        pass


def around():
    blocks = stack()
    return entered(nn.Sequential(torch.compile(blocks, backend="eager")), blocks.blocks)


def in_place():
    model = stack()
    model.compile(backend="eager")
    entered(model)


def twice():
    flow = recorder()
    with flow, flow:
        pass


def again():
    flow = recorder()
    with flow:
        pass
    with flow:
        pass


ONCE = "a recorder must be entered once, got a second `with`; make another recorder"
COMPILED = "model must not be compiled, since it then runs no hooks; compile its blocks one by one"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: recorder([]), "blocks must hold at least 1 module, got none"),
        (lambda: recorder(7), "blocks must be a list of modules, got 7; put it into [ ]"),
        (lambda: recorder(nn.ReLU()), "blocks must be a list of modules, got ReLU(); put it into [ ]"),
        (lambda: recorder([3]), "blocks[0] must be a Module, got 3"),
        (
            lambda: recorder([nn.ReLU()]),
            "blocks[0], a ReLU, must be a module of model; keep blocks in an nn.ModuleList",
        ),
        (lambda: recorder(every=0), "every must be at least 1, got 0"),
        (lambda: recorder(every=2.5), "every must be a whole number, got 2.5"),
        (lambda: entered(torch.compile(stack(), backend="eager")), COMPILED),
        (in_place, COMPILED),
        (around, COMPILED),
        (twice, ONCE),
        (again, ONCE),
    ],
)
@pytest.mark.usefixtures("as_installed")
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{re.escape(words)}$"):
        call()


def test_a_refusal_leaves_no_hook_and_the_first_recording_whole(x):
    model = stack()
    with pytest.raises(InvalidInput), GradientFlowRecorder(model, model.blocks) as flow, flow:
        pass
    assert hooks(model) == 0
    same(record(model, x), expected(model, x))

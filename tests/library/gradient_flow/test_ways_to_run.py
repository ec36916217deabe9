"""Ways to run a network."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from residual_edu import InvalidInput
from residual_edu.gradient_flow import GradientFlowRecorder

from .stacks import QUANTITIES, expected, hooks, loss, record, same, stack


def test_forward_passes_without_a_graph_are_not_recorded(x):
    model = stack()
    with GradientFlowRecorder(model, model.blocks) as flow:
        with torch.no_grad():
            model(x)
        with torch.inference_mode():
            model(x)
        model(x)
        assert hooks(model) == 7  # two a block and one on the model
    assert len(flow.stream_gradient) == 0


def test_a_pass_without_a_graph_before_backward_and_a_second_backward_pass_through_the_same_graph(x):
    model = stack()
    with GradientFlowRecorder(model, model.blocks) as flow:
        total = loss(model, x)
        with torch.no_grad():
            model(2 * x)
        total.backward(retain_graph=True)
        total.backward()
    assert len(flow.stream_gradient) == 1
    want = expected(model, x)
    same(flow, want | {"weight_gradient": 2 * want["weight_gradient"]})  # of which .grad is the sum


def test_with_gradient_accumulation_each_micro_batch_is_a_step(x):
    model = stack()
    with GradientFlowRecorder(model, model.blocks) as flow:
        for part in (x[:2], x[2:]):
            loss(model, part).backward()
    names = [name for name in QUANTITIES if name != "weight_gradient"]
    for row, part in enumerate((x[:2], x[2:])):
        same(flow, expected(model, part), row, names)
    torch.testing.assert_close(flow.weight_gradient[1], expected(model, x)["weight_gradient"])


def test_of_several_calls_before_a_backward_pass_the_last_is_recorded(x):
    model = stack()
    with GradientFlowRecorder(model, model.blocks) as flow:
        (loss(model, 3 * x) + loss(model, x)).backward()
    assert len(flow.stream_gradient) == 1
    same(flow, expected(model, x), names=["activation", "added", "stream_gradient", "branch_gradient"])


@pytest.mark.parametrize(("every", "before"), [(1, 0), (2, 1)])
@pytest.mark.parametrize("by_hand", ["forward", "blocks"])
def test_what_begins_no_step_is_refused(x, by_hand, every, before):
    """At once, and after steps that were recorded; without a graph it is nobody's step."""
    model = stack()
    with GradientFlowRecorder(model, model.blocks, every) as flow:
        for _ in range(before):
            loss(model, x).backward()
        with torch.no_grad():
            model.forward(x)
        with pytest.raises(InvalidInput, match="^model must be called in each step: its forward, or a block by hand"):
            model.forward(x) if by_hand == "forward" else model.blocks[0](model.stem(x))
    assert len(flow.steps) == before and hooks(model) == 0


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradient_checkpointing_changes_no_number(x, reentrant):
    model, size = stack(depth=4), 2
    want = expected(model, x)

    def forward(x):
        x = model.stem(x)
        for first in range(0, 4, size):
            x = checkpoint(nn.Sequential(*model.blocks[first : first + size]), x, use_reentrant=reentrant)
        return x

    model.forward = forward
    flow = record(model, x, steps=2)
    for row in range(2):
        same(flow, want, row)
    assert [step.numel() for step in flow.steps] == [5 * 5] * 2  # one small tensor a step is all that is kept
    assert flow.runs == flow.stream.hooks == [] and flow.inside == {}


@pytest.mark.usefixtures("as_installed")
@pytest.mark.filterwarnings("ignore")  # torch's own, while it compiles
@pytest.mark.parametrize("in_place", [False, True])
def test_blocks_compiled_one_by_one_are_recorded(x, in_place):
    model = stack()
    want = expected(model, x)
    for place, block in enumerate(model.blocks):
        if in_place:
            block.compile(backend="eager")
        else:
            model.blocks[place] = torch.compile(block, backend="eager")
    flow = record(model, x, steps=2)
    assert hooks(model) == 0
    same(flow, want)
    torch.compiler.reset()

"""What is measured."""

import numpy as np
import pytest
import torch
from torch import nn

from residual_edu import InvalidInput
from residual_edu.gradient_flow import GradientFlowRecorder
from tests.library.helpers import refused

from .stacks import QUANTITIES, expected, hooks, loss, record, same, stack


def test_a_training_run_is_one_row_a_step_of_plain_float64(x):
    flow = record(stack().float(), x.float())
    assert {getattr(flow, name).dtype for name in QUANTITIES} == {torch.float64} and not flow.added.requires_grad
    model = stack()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    wanted = []
    with GradientFlowRecorder(model, model.blocks) as flow:
        for _ in range(4):
            wanted.append(expected(model, x))
            optimizer.zero_grad()
            loss(model, x).backward()
            optimizer.step()
    for name in QUANTITIES:
        assert np.asarray(getattr(flow, name)).shape == (4, 4 if name in ("activation", "stream_gradient") else 3)
    for row, want in enumerate(wanted):
        same(flow, want, row)


@pytest.mark.parametrize("every", [2, 7])
def test_one_of_so_many_steps_is_recorded_the_first_of_them(x, every):
    """Also where a call without a graph, which is no step, comes between."""
    model, watched = stack(), []
    whole, some = GradientFlowRecorder(model, model.blocks), GradientFlowRecorder(model, model.blocks, every)
    model.blocks[1].register_forward_hook(lambda *_: watched.append(bool(some.inside)))
    with whole, some:
        for scale in range(1, 7):
            with torch.no_grad():
                model(x)
            watched.clear()
            (scale * loss(model, x)).backward()
            assert watched == [(scale - 1) % every == 0]
    for name in QUANTITIES:
        assert getattr(some, name).equal(getattr(whole, name)[::every])


def test_two_recorders_at_once_see_the_same_and_a_second_with_is_refused(x):
    model = stack()
    with GradientFlowRecorder(model, model.blocks) as outer, GradientFlowRecorder(model, model.blocks[1:]) as inner:
        with pytest.raises(InvalidInput, match="^a recorder must be entered once, got a second `with`"), outer:
            pass
        loss(model, x).backward()
    assert hooks(model) == 0
    same(outer, expected(model, x))
    torch.testing.assert_close(inner.stream_gradient, outer.stream_gradient[:, 1:])


def compiled(way):
    model = stack()
    if way == "in place":
        model.compile(backend="eager")
    elif way == "a part":  # around the blocks
        model = nn.Sequential(torch.compile(model, backend="eager"))
        model.blocks = model[0].blocks
    else:
        model = torch.compile(model, backend="eager")
    with GradientFlowRecorder(model, model.blocks):
        pass


test_what_is_refused = refused(
    (lambda: GradientFlowRecorder(stack(), []), "blocks must be modules of model, got []"),
    (lambda: GradientFlowRecorder(stack(), [nn.ReLU()]), "blocks must be modules of model, got [ReLU()]"),
    (lambda: GradientFlowRecorder(stack(), [], every=0), "every must be a whole number, at least 1, got 0"),
    *[(lambda way=way: compiled(way), "model must not be compiled") for way in ("whole", "in place", "a part")],
)


def test_a_recorder_goes_on_where_it_was_left(x):
    model = stack()
    flow = GradientFlowRecorder(model, model.blocks, every=2)
    assert flow.stream_gradient.shape == (0, 4) and flow.skip_gradient.shape == (0, 3)
    for _ in range(2):
        with flow:
            loss(model, x).backward()
            loss(model, 2 * x).backward()
    assert len(flow.added) == 2 and flow.added[0].equal(flow.added[1])

"""The explorer of stacks: its curves against the recorder, its words, and the lesson's answer."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from residual_course.explorers.faulty_block import LAST_LINE
from residual_course.explorers.residual_block import (
    DEPTHS,
    LOW,
    apart,
    curves,
    explore_blocks,
    ingredients,
    stack,
)
from residual_edu.gradient_flow import GradientFlowRecorder

pytestmark = pytest.mark.usefixtures("as_installed")

ALL = (True, True, True)


@pytest.fixture(scope="module")
def explorer():
    return explore_blocks()


class Chain(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x, condition):
        for block in self.blocks:
            x = block(x, condition)
        return x


@pytest.mark.parametrize("fault", LAST_LINE)
@pytest.mark.parametrize("there", [ALL, (True, False, True), (False, True, False)])
def test_curves_agree_with_the_recorder(there, fault):
    x, tokens, probe = ingredients()
    model = Chain(stack(*there)[:4])
    for block in model.blocks:
        block.fault = fault
    torch.manual_seed(0)
    with GradientFlowRecorder(model, model.blocks) as flow:
        model(x.clone().requires_grad_(), tokens).backward(probe)
    stream, delta, weights = curves(*there, 4, fault)
    assert stream == pytest.approx(flow.activation[0].numpy(), rel=1e-5)
    assert delta == pytest.approx(flow.stream_gradient[0].numpy(), rel=1e-5)
    assert len(weights) == (4 if there[2] else 0)
    assert (fault == "mixer for MLP") == (there[2] and not weights.any()) or not there[2]
    model.zero_grad()


def test_curves_leave_the_random_numbers_alone():
    state = torch.get_rng_state()
    curves.cache_clear()
    curves(*ALL, 2, "none")
    assert torch.get_rng_state().equal(state)


def test_a_branch_has_the_same_weights_in_every_stack():
    for one, other in zip(stack(*ALL), stack(False, True, True), strict=True):
        assert one.block.mlp.layer1.weight.equal(other.block.mlp.layer1.weight)
        assert isinstance(other.block.sequence_mixer, nn.Identity)


def against_health(fault, depth):
    """How stream and delta of a stack end, against those of the healthy one."""
    (stream, delta, _), (healthy, well, _) = curves(*ALL, depth, fault), curves(*ALL, depth, "none")
    return stream[-1] / healthy[-1], delta[0] / well[0]


def test_the_answer_in_one_block_only_the_lost_skip_stands_out():
    assert max(against_health("no skip", 1)) < 0.25
    for fault in ("norm on the stream", "mixer for MLP", "dropout on the stream"):
        assert np.allclose(against_health(fault, 1), 1, atol=1 / 7)


def test_the_answer_with_depth_dropout_floods_the_norm_holds_and_the_mixer_hides():
    assert min(against_health("dropout on the stream", 16)) > 4
    stream, _, _ = curves(*ALL, 16, "norm on the stream")
    assert np.allclose(stream, 1, atol=0.15) and curves(*ALL, 16, "none")[0][-1] > 2
    assert all(max(against_health("mixer for MLP", depth)) < 1.4 for depth in DEPTHS)
    assert not curves(*ALL, 16, "mixer for MLP")[2].any()
    assert curves(False, False, True, 16, "mixer for MLP")[0][-1] > 10  # an Identity in the mixer's place: x + norm(x)


@pytest.mark.parametrize("fault", LAST_LINE)
def test_the_answer_without_the_mlp_all_faults_are_gone(fault):
    healthy, sick = (curves(True, True, False, 8, kind) for kind in ("none", fault))
    assert all(map(np.array_equal, healthy, sick))


def test_the_picture_shows_the_chosen_stack_and_the_healthy_one(explorer):
    explorer.inputs["fault"].value, explorer.inputs["depth"].value = "no skip", 4
    healthy, sick = (curves(*ALL, 4, kind) for kind in ("none", "no skip"))
    for line, values in zip(explorer.animated[:6], [*healthy, *sick], strict=True):
        assert np.allclose(line.get_ydata(), np.maximum(values, LOW))
    grows, returns = sick[0][-1] / sick[0][0], sick[1][0] / sick[1][-1]
    title = f"The stream ends {grows:.2g} times, its gradient {returns:.2g} times as large"
    assert explorer.animated[-1].get_text() == title
    assert f"Over 4 blocks the stream becomes {grows:.2g} times as large" in explorer.reading.value


def test_the_reading_says_when_no_gradient_comes_and_when_there_is_no_mlp(explorer):
    explorer.inputs["fault"].value = "mixer for MLP"
    assert "gradient in the MLPs' weights: none comes." in explorer.reading.value
    explorer.inputs["mlp"].value = False
    assert "gradient in the MLPs' weights: there is none." in explorer.reading.value
    explorer.inputs["mlp"].value = True


def test_every_state_can_be_drawn(explorer):
    for *branches, depth, fault in itertools.product(*[[True, False]] * 3, DEPTHS, LAST_LINE):
        curves.cache_clear()
        explorer.draw(*branches, depth, fault)
        explorer.paint()
        assert explorer.png().startswith(b"\x89PNG")


def test_names_are_not_written_over_each_other():
    heights = apart([1.0, 1.1, 0.0])
    assert heights[2] == LOW and heights[0] == 1 and heights[1] >= 1.7

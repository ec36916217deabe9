"""The explorer of gates shows the networks without gates, and marks each setting that was tried."""

import itertools

import numpy as np
import pytest

from residual_course.explorers.layer_scale import NONE, explore_gates

PLACES, GATES, RATES = ("post-norm", "pre-norm"), (NONE, "from 1", "from 0.1", "0.1, frozen"), (0.001, 0.003, 0.01)
GRID = list(itertools.product(PLACES, GATES, RATES))


@pytest.fixture
def losses():
    return {key: [0.1 * (1 + place), 0.2, 0.3] for place, key in enumerate(GRID)}


@pytest.fixture
def explorer(losses):
    return explore_gates(losses)


def choose(explorer, *choice):
    for name, value in zip(("place", "gates", "rate"), choice, strict=True):
        explorer.inputs[name].value = value


def test_it_opens_with_the_losses_without_gates_at_every_rate(explorer, losses):
    for place, ax in zip(PLACES, explorer.canvas.figure.axes, strict=True):
        dashed = ax.get_lines()[0]
        assert list(dashed.get_xdata()) == list(RATES)
        assert np.allclose(dashed.get_ydata(), [np.mean(losses[place, NONE, rate]) for rate in RATES])


def test_each_setting_leaves_a_mark_at_its_rate_and_mean_loss(explorer, losses):
    choose(explorer, "pre-norm", "0.1, frozen", 0.01)
    marks = explorer.draw.__self__.marks
    at = [point for point in marks["pre-norm", "0.1, frozen"].get_xydata().tolist() if point[0] == point[0]]
    assert np.allclose(at, [[rate, np.mean(losses["pre-norm", "0.1, frozen", rate])] for rate in (0.001, 0.01)])
    assert len(marks["post-norm", "from 1"].get_xdata()) > 0  # the first setting is still there


def test_the_ring_stands_at_the_present_setting_alone(explorer, losses):
    choose(explorer, "pre-norm", "from 0.1", 0.003)
    rings = explorer.draw.__self__.rings
    assert np.allclose(rings["pre-norm"].get_xydata(), [[0.003, np.mean(losses["pre-norm", "from 0.1", 0.003])]])
    assert len(rings["post-norm"].get_xdata()) == 0


def test_title_and_reading_say_the_numbers(explorer, losses):
    choose(explorer, "post-norm", "from 1", 0.003)
    three = " ".join(f"{loss:.2f}" for loss in losses["post-norm", "from 1", 0.003])
    assert explorer.draw.__self__.title.get_text() == f"post-norm, gates from 1, rate 0.003: {three}"
    without = np.mean(losses["post-norm", NONE, 0.003])
    assert f"loss with three seeds {three}; without gates {without:.2f}." in explorer.reading.value


def test_every_setting_but_the_networks_without_gates_can_be_chosen(explorer):
    assert NONE not in explorer.inputs["gates"].options
    seen = set()
    for choice in itertools.product(PLACES, GATES[1:], RATES):
        choose(explorer, *choice)
        assert "cannot be drawn" not in explorer.reading.value
        seen.add(explorer.reading.value)
    assert len(seen) == len(PLACES) * (len(GATES) - 1) * len(RATES)

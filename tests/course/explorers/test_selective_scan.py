"""The explorer of the step shows the memory that the chosen steps make, and how far it is from what is wanted."""

import itertools
import math

import numpy as np
import pytest

from residual_course.explorers.selective_scan import explore_latch, held, wanted

NUMBERS = [7.0, 2, 8, 1, 3, 6, 9, 0, 5]
MARKED = [place in (0, 4) for place in range(9)]


@pytest.fixture
def explorer():
    return explore_latch(NUMBERS, MARKED)


def choose(explorer, **values):
    for name, value in values.items():
        explorer.inputs[name].value = value


def by_hand(decay, step_marked, step_noise):
    memory, after = 0.0, []
    for number, mark in zip(NUMBERS, MARKED, strict=True):
        step = step_marked if mark else step_noise
        memory = math.exp(-decay * step) * memory + step * number
        after.append(memory)
    return after


SETTINGS = [(1.0, 0.5, 0.5), (6.0, 1.0, 0.0), (0.0, 2.0, 1.0), (8.0, 0.0, 0.05)]


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_memory_is_the_recurrence(setting):
    assert np.allclose(held(NUMBERS, MARKED, *setting), by_hand(*setting), rtol=1e-12, atol=1e-12)


def test_what_is_wanted_is_the_last_marked_number():
    assert wanted(NUMBERS, MARKED).tolist() == [7, 7, 7, 7, 3, 3, 3, 3, 3]
    assert wanted([4.0, 5, 6], [False, True, False]).tolist() == [0, 5, 5]


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_picture_shows_it(explorer, setting):
    choose(explorer, **dict(zip(("decay", "step_marked", "step_noise"), setting, strict=True)))
    curve, *_, name, title = explorer.animated
    memory = by_hand(*setting)
    off = max(abs(a - b) for a, b in zip(memory, wanted(NUMBERS, MARKED), strict=True))
    assert np.allclose(curve.get_ydata(), memory)
    assert name.xy == pytest.approx((9.5, min(max(memory[-1], -2), 10)))
    assert ("off the chart" in name.get_text()) == (memory[-1] > 10)
    assert title.get_text() == f"The memory is off by {off:.2f} at most"


def test_the_reading_says_the_numbers(explorer):
    choose(explorer, decay=6.0, step_marked=1.0, step_noise=0.0)
    assert "At a marked number 0% of the memory stays and 1 times the number is added" in explorer.reading.value
    assert "At the end it holds 3.02, where 3 was marked last." in explorer.reading.value


def test_the_discovery_can_be_made():
    """With A = -1 nothing comes near; with a strong fade the same step writes and clears."""

    def off(decay, step):
        return abs(held(NUMBERS, MARKED, decay, step, 0.0) - wanted(NUMBERS, MARKED)).max()

    tried = {round(step, 1): off(1.0, step) for step in np.arange(0.1, 2.05, 0.1)}
    assert min(tried, key=tried.get) == 0.8 and abs(tried[0.8] - 1.92) < 0.005
    assert off(6.0, 1.0) < 0.02 < off(5.0, 1.0)


def test_every_corner_of_the_controls_can_be_drawn(explorer):
    ranges = [(explorer.inputs[name].min, explorer.inputs[name].max) for name in explorer.inputs]
    seen = set()
    for corner in itertools.product(*ranges):
        choose(explorer, **dict(zip(explorer.inputs, corner, strict=True)))
        assert "cannot be drawn" not in explorer.reading.value
        seen.add(explorer.reading.value)
    assert len(seen) == 7  # with both steps 0 nothing moves, whatever A is

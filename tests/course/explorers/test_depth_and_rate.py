"""The explorer of depth and rate marks each setting that was tried, by what was right with it."""

import itertools

import pytest

from residual_course.explorers.depth_and_rate import explore_rates
from residual_course.plots.placement import SHIFT, TRAINED

PLACES, SIZES, DEPTHS, RATES = ("pre-norm", "post-norm"), ("as large", "small"), (6, 24, 48), (0.001, 0.003, 0.01)
GRID = list(itertools.product(PLACES, SIZES, DEPTHS, RATES))


@pytest.fixture
def explorer():
    shares = {key: [0.9, 0.95, 0.85] if key[0] == "pre-norm" else [0.1, 0.5, 0.6] for key in GRID}
    return explore_rates(shares | {("post-norm", "small", 48, 0.01): [0.1, 0.1, 0.1]})


def choose(explorer, *choice):
    for name, value in zip(("place", "size", "depth", "rate"), choice, strict=True):
        explorer.inputs[name].value = value


def marks(explorer):
    """Return the places of the marks of each placement, size and level that has any."""
    found = {}
    for key, line in explorer.draw.__self__.marks.items():
        points = {(x, y) for x, y in zip(*line.get_data(), strict=True) if x == x}  # gaps are NaN
        if points:
            found[key] = points
    return found


def test_each_setting_leaves_a_mark_at_its_depth_and_rate(explorer):
    assert marks(explorer) == {("pre-norm", "as large", TRAINED[0]): {(6, 0.001)}}
    choose(explorer, "post-norm", "small", 48, 0.01)
    found = marks(explorer)
    assert found["post-norm", "small", TRAINED[2]] == {(48 * SHIFT, 0.01)}
    assert found["post-norm", "small", TRAINED[1]] == {(6 * SHIFT, 0.001), (48 * SHIFT, 0.001)}
    assert found["post-norm", "as large", TRAINED[1]] == {(6, 0.001)}  # on the way, one control after the other


def test_the_ring_stands_at_the_present_setting_alone(explorer):
    choose(explorer, "post-norm", "as large", 24, 0.003)
    rings = explorer.draw.__self__.rings
    assert [list(part) for part in rings["post-norm"].get_data()] == [[24], [0.003]]
    assert len(rings["pre-norm"].get_xdata()) == 0


def test_title_and_reading_say_the_numbers(explorer):
    choose(explorer, "post-norm", "small", 48, 0.01)
    assert explorer.draw.__self__.title.get_text() == "post-norm, 48 blocks, rate 0.01: 10% 10% 10%"
    assert (
        "post-norm, branches small, 48 blocks at a rate of 0.01: right with three seeds 10% 10%"
        in explorer.reading.value
    )


def test_every_setting_can_be_chosen(explorer):
    seen = set()
    for choice in GRID:
        choose(explorer, *choice)
        assert "cannot be drawn" not in explorer.reading.value
        seen.add(explorer.reading.value)
    assert len(seen) == len(GRID)


def test_the_alternative_text_tells_the_first_picture(explorer):
    assert "6 blocks and a rate of 0.001, pre-norm" in explorer.alt
    assert "pre-norm, branches as large, 6 blocks at a rate of 0.001" in explorer.reading.value

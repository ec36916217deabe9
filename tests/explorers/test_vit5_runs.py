"""The explorer of trainings shows the run that was chosen, among its siblings."""

import itertools

import numpy as np
import pytest

from residual_edu.explorers.vit5_runs import explore_runs

STARTS, RATES, DEPTHS, STEPS = (0.0, 1e-4, 0.1), (0.0, 0.5), (1, 3, 9), 40
CHOICES = list(itertools.product(STARTS, RATES, DEPTHS))


@pytest.fixture
def losses():
    return {choice: np.linspace(2.3, 0.1 * i, STEPS) for i, choice in enumerate(CHOICES)}


@pytest.fixture
def scores():
    return {choice: 0.3 + 0.03 * i for i, choice in enumerate(CHOICES)}


@pytest.fixture
def explorer(losses, scores):
    return explore_runs(losses, scores)


def choose(explorer, start, rate, depth):
    for name, value in {"start": start, "rate": rate, "depth": depth}.items():
        explorer.inputs[name].value = value


@pytest.mark.parametrize("choice", CHOICES)
def test_the_picture_shows_the_chosen_run_and_its_siblings(explorer, losses, scores, choice):
    choose(explorer, *choice)
    others, chosen = explorer.animated[:5], explorer.animated[5]
    assert np.allclose(chosen.get_ydata(), losses[choice])
    ends = sorted(line.get_ydata()[-1] for line in others)
    assert np.allclose(ends, sorted(losses[key][-1] for key in CHOICES if key[2] == choice[2] and key != choice))
    lines, here = explorer.animated[6:9], explorer.animated[12]
    for start, line in zip(STARTS, lines, strict=True):
        assert np.allclose(line.get_ydata(), [scores[start, choice[1], depth] for depth in DEPTHS])
    assert np.allclose(here.get_xydata(), [[DEPTHS.index(choice[2]), scores[choice]]])
    assert len({line.get_color() for line in lines}) == 2


def test_the_reading_and_the_title_say_the_numbers(explorer, losses):
    choose(explorer, 1e-4, 0.5, 9)
    mean = losses[1e-4, 0.5, 9][-10:].mean()
    expected = f"LayerScale 0.0001, drop rate 0.5, 9 blocks: the last ten losses are {mean:.2f} on average, and 63% of"
    assert expected in explorer.reading.value
    assert explorer.animated[-1].get_text() == "LayerScale 0.0001, drop rate 0.5, 9 blocks"
    choose(explorer, 0.0, 0.0, 1)
    assert "LayerScale left out, drop rate 0, 1 block:" in explorer.reading.value


def test_the_controls_offer_every_run(explorer):
    offered = [[value for _, value in explorer.inputs[name].options] for name in ("start", "rate", "depth")]
    assert list(itertools.product(*offered)) == CHOICES


def test_each_control_changes_the_picture_and_the_reading(explorer):
    seen = {(explorer.image.value, explorer.reading.value)}
    for name, value in [("start", 0.1), ("rate", 0.5), ("depth", 9)]:
        explorer.inputs[name].value = value
        seen.add((explorer.image.value, explorer.reading.value))
    assert len(seen) == 4


def test_names_stand_apart_where_lines_end_close_together(losses):
    explorer = explore_runs(losses, dict.fromkeys(losses, 0.7))
    heights = sorted(name.get_position()[1] for name in explorer.animated[9:12])
    assert min(np.diff(heights)) > 0.05 and heights[0] == 0.7
    assert {name.get_text() for name in explorer.animated[9:12]} == {"left out", "0.0001", "0.1"}

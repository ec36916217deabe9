"""The explorer of switches marks each setting in both tables, keeps what was tried, and says the scores."""

import itertools

import numpy as np
import pytest

from residual_course.explorers.switches import WIDE, explore_switches

MIXERS, TAPS, ASKS, LENGTHS = ("Attention", "Mamba"), ("1 tap", "3 taps"), ("one ?", "? and !"), (12, 48)
SCORES = {
    choice: [0.01 * number, 0.01 * number + 0.1, 0.5]
    for number, choice in enumerate(itertools.product(MIXERS, TAPS, ASKS, LENGTHS))
}


@pytest.fixture
def explorer():
    return explore_switches(SCORES)


def choose(explorer, **values):
    for name, value in values.items():
        explorer.inputs[name].value = value


def marks(explorer):
    """Return the marks of each line: first those of the shorter length, then those of the longer."""
    *lines, _ = explorer.animated
    return [line.get_xydata()[~np.isnan(line.get_xydata()).any(1)].tolist() for line in lines]


def test_a_setting_is_marked_at_both_lengths_in_the_column_of_its_switches(explorer):
    first = [[-WIDE / 2, score] for score in SCORES["Attention", "1 tap", "one ?", 12]]
    longer = [[-WIDE / 2, score] for score in SCORES["Attention", "1 tap", "one ?", 48]]
    assert marks(explorer) == [first, [], longer, []]
    choose(explorer, mixer="Mamba", taps="3 taps", asks="? and !")
    wanted = [[3 + WIDE / 2, score] for score in SCORES["Mamba", "3 taps", "? and !", 12]]
    assert marks(explorer)[1][-3:] == [pytest.approx(pair) for pair in wanted]


def test_what_was_tried_stays(explorer):
    choose(explorer, taps="3 taps")
    assert len(marks(explorer)[0]) == 6 and len(marks(explorer)[2]) == 6


def test_title_and_reading_say_what_was_chosen(explorer):
    choose(explorer, mixer="Mamba", asks="? and !")
    assert explorer.animated[-1].get_text() == "Mamba: 1 tap, ? and !"
    told = " ".join(f"{score:.2f}" for score in SCORES["Mamba", "1 tap", "? and !", 48])
    assert f"48 positions {told}." in explorer.reading.value


def test_every_setting_can_be_drawn(explorer):
    for mixer, taps, asks in itertools.product(MIXERS, TAPS, ASKS):
        choose(explorer, mixer=mixer, taps=taps, asks=asks)
        assert "cannot be drawn" not in explorer.reading.value

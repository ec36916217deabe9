"""The explorer of a written text shows the text, and what its words are like."""

import pytest
from matplotlib.figure import Figure

from residual_course.explorers.configurable import COLUMNS, LINES, WritingPicture, explore_writing, shares

KNOWN = {"the", "value", "is"}


def write(temperature, top_p, seed):
    """Write more words the warmer, all different ones from 1 on."""
    words = ["the", "value", "is"] + [f"x{chr(97 + at)}" for at in range(round(10 * temperature) + seed)]
    return " ".join(words[: round(20 * top_p)]) + " cut"


def test_shares_leave_out_the_last_word_which_may_be_cut():
    assert shares("the value of the val", KNOWN) == (3 / 4, 3 / 4)
    assert shares("", KNOWN) == (0, 0) and shares("the", KNOWN) == (0, 0)


def test_the_picture_shows_the_text_in_lines():
    picture = WritingPicture(Figure(), lambda *_: "word " * 200, KNOWN)
    picture.draw(0.5, 1.0, 0)
    lines = [line.get_text() for line in picture.lines]
    assert len(lines) == LINES and all(0 < len(line) <= COLUMNS for line in lines)
    short = WritingPicture(Figure(), lambda *_: "costs $5 and $6", KNOWN)
    short.draw(0.5, 1.0, 0)
    assert [line.get_text() for line in short.lines] == [r"costs \$5 and \$6"] + [""] * (LINES - 1)


def test_the_reading_has_the_shares():
    reading = WritingPicture(Figure(), write, KNOWN).draw(0.7, 1.0, 0)
    assert reading.startswith("Temperature 0.7, top-p 1.00: 30% of the words stand in the text, and 100% of")


def test_each_control_changes_the_text_and_dots_stay():
    explorer = explore_writing(write, KNOWN)
    seen = {explorer.reading.value}
    for name, value in (("temperature", 1.0), ("seed", 3), ("top_p", 0.3)):
        explorer.inputs[name].value = value
        assert "cannot be drawn" not in explorer.reading.value
        seen.add((explorer.reading.value, explorer.image.value))
    assert len(seen) == 4 and explorer.inputs["top_p"].description == "top-p"
    assert len(explorer.tried.marks) >= 4


@pytest.mark.parametrize("temperature", [0.0, 2.0])
def test_the_ends_of_the_slider_are_drawn(temperature):
    explorer = explore_writing(write, KNOWN)
    explorer.inputs["temperature"].value = temperature
    assert f"Temperature {temperature:.1f}" in explorer.reading.value

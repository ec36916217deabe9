"""The explorer of a trained map shows the row that was typed, and says what a position attends to."""

import numpy as np
import pytest

from residual_course.explorers.attention_map import ROWS, digits_of, explore_map
from residual_course.plots.attention import colored
from residual_edu.errors import InvalidInput


def attend(digits, handwriting, trained):
    """Tokens whose first pixel is the digit; trained, each gives 0.75 to the one before, and the rest to itself."""
    tokens = np.zeros((12, 68))
    tokens[:, 0] = np.array(digits) / 10
    tokens[:, 64 + handwriting % 4] = 1
    weights = np.tri(12) / np.arange(1, 13)[:, None]
    if trained:
        weights = 0.25 * np.eye(12) + 0.75 * np.eye(12, k=-1)
        weights[0, 0] = 1
    return tokens, np.stack([weights, weights])


@pytest.fixture
def explorer():
    return explore_map(attend)


def test_the_maps_and_the_reading_are_those_of_the_row(explorer):
    explorer.inputs["row"].value = "0123 4567 8901"
    explorer.inputs["position"].value = 3
    said = "Position 3, a 2, trained: head 1 gives 0.75 to position 2, a 1, 0.25 to position 3, a 2; head 2 gives"
    assert said in explorer.reading.value
    table, *pictures = [artist for artist in explorer.animated if hasattr(artist, "get_array")][:25]
    assert np.allclose(table.get_array().filled(0), attend([0] * 12, 0, True)[1][0])
    assert np.allclose(pictures[2 * 9].get_array(), colored(attend([9] * 12, 0, True)[0][0]))


def test_each_control_changes_the_picture(explorer):
    seen = {explorer.image.value}
    for name, value in (("row", ROWS[1]), ("handwriting", 3), ("position", 2), ("trained", False)):
        explorer.inputs[name].value = value
        seen.add(explorer.image.value)
    assert len(seen) == 5 and "untrained" in explorer.reading.value


def test_another_number_of_digits_is_told_and_the_picture_stays(explorer):
    before = explorer.image.value
    explorer.inputs["row"].value = "12345"
    assert explorer.image.value == before and "a row has 12 digits, got 5" in explorer.reading.value
    with pytest.raises(InvalidInput, match="^a row has 12 digits, got 13$"):
        digits_of("1" * 13)


def test_the_rows_that_are_offered_have_twelve_digits():
    assert {len(digits_of(row)) for row in ROWS} == {12}

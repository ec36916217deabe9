"""A lesson has what a first reader can take."""

import json

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from tools.comparison import RECORD

FOLDED = {"jupyter": {"source_hidden": True}}


def found_in(find, name="00_lesson"):
    return [one for one in find(name=name) if one.startswith(("the lesson", "cell")) or "exercises" in one]


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (new_markdown_cell("word " * 4500), "words, more than 4000"),
        (new_markdown_cell("### Exercise 3 · Long (59 minutes)"), "minutes, more than 60"),
        (new_code_cell("x = 1\n" * 18), "visible lines of code, more than 170"),
        (new_code_cell("x = 1\n" * 18, metadata=FOLDED), "hidden lines of code, more than 120"),
        (new_markdown_cell("### Exercise 3 · Short (1 minute)"), ""),
        (new_markdown_cell(" ".join(f"**term {n}**" for n in range(7))), "8 bold terms, more than 7"),
        (new_code_cell("x = 1\n" * 21), "has 21 lines of code, more than 20"),
        (new_code_cell("import torch\n" * 40), ""),
    ],
)
def test_more_than_the_form_allows_is_found(source, find, cell, said):
    times = 10 if "visible" in said else 7 if "hidden" in said else 1
    source.cells[2:2] = [cell.copy() for _ in range(times)]
    found = found_in(find)
    assert any(said in one for one in found) if said else not found


def test_a_large_lesson_has_more(source, find):
    source.cells.insert(2, new_markdown_cell("word " * 4500))
    source.cells[1].source, source.cells[-2].source = 'progress("10")', 'summary("10")'
    assert found_in(find, "10_lesson") == [] and len(found_in(find, "02_lesson")) > 1


def test_a_fourth_prediction_and_another_number_of_exercises_are_found(source, find):
    source.cells[4:5] = [source.cells[4].copy() for _ in range(4)]
    del source.cells[8:11]
    assert {"the lesson has 4 predictions, more than 3", "the lesson has 1 exercises, fewer than 2"} <= {
        *found_in(find)
    }


def test_an_exercise_says_its_minutes(source, find):
    source.cells[5].source = "### Exercise 1"
    assert found_in(find) == ["1 exercises do not say their minutes at the end of their heading"]


def test_the_seconds_are_those_of_the_last_run(find, checkout):
    record = checkout.parents[1] / RECORD
    record.parent.mkdir()
    record.write_text(json.dumps({"00_lesson.ipynb": 31.5}))
    assert found_in(find) == ["the lesson has 31.5 seconds, more than 30"]

"""What a companion says is held against its lesson's cells, in one sentence each."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from residual_course.commands.checkout import companion_of
from residual_course.companion import read
from residual_course.contents import predicts
from tools.companions import Question, describe, faults, question

ASK = 'with predict("How?", ["so", "not so"]) as guess:\n    runs = 3\n    guess.truth = "so"'
TEXTS = """\
[predictions."How?"]
after = "That is why."
why."so" = "Yes."
why."not so" = "No."
[cells.runs]
holds = ["runs == 3"]
alt = ["A square."]
"""


@pytest.fixture
def lesson(tmp_path):
    path = tmp_path / "notebooks" / "source" / "00_x.py"
    companion_of(path).parent.mkdir(parents=True)
    companion_of(path).write_text(TEXTS)
    return path


@pytest.fixture
def notebook():
    picture = new_output("display_data", {"image/png": "iVBORw0="}, metadata={"image/png": {"width": 600}})
    return new_notebook(cells=[new_code_cell(ASK, metadata={"title": "runs"}, outputs=[picture])])


def test_a_companion_that_fits_has_no_fault_nor_has_a_lesson_without_one(lesson, notebook):
    assert list(faults(lesson, notebook)) == list(faults(lesson.with_stem("01_y"), notebook)) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[cells.runs]", "[cells.run]", "00_x.toml names the cell 'run', and 0 cells have this title"),
        ('"How?"', '"Why?"', "00_x.toml names the question 'Why?', which no cell asks"),
        ('"not so"', '"never"', "00_x.toml gives a reason for 'never', which is no choice of 'How?'"),
        ("holds", "hold", "00_x.toml says 'hold' of 'runs', which means nothing"),
        ("[cells", "[cell", "00_x.toml has a part 'cell'; it may have predictions and cells"),
        ("== 3", "== ", "00_x.toml: 'runs == ' is no expression"),
        ("[cells", "cells", "00_x.toml is no TOML: "),
    ],
)
def test_what_the_lesson_does_not_have_is_refused(lesson, notebook, old, new, said):
    companion_of(lesson).write_text(TEXTS.replace(old, new))
    (found,) = faults(lesson, notebook)
    assert found.startswith(said)


def test_each_picture_gets_its_words_and_there_are_no_more_words(lesson, notebook):
    assert list(describe(read(companion_of(lesson)), notebook)) == []
    assert notebook.cells[0].outputs[0].metadata == {"image/png": {"width": 600, "alt": "A square."}}
    nbformat.validate(notebook)
    notebook.cells[0].outputs = []
    (found,) = describe(read(companion_of(lesson)), notebook)
    assert found == "the cell 'runs' shows 0 pictures, and its companion describes 1"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (ASK, Question("How?", ("so", "not so"))),
        ('with predict("How many?") as guess:\n    guess.truth = 3', Question("How many?")),
        (f"x = 1\n{ASK}", None),
        ('guess = predict("How?", ["so", "not so"])', None),
        ("with predict(f(), choices) as guess:\n    pass", None),
    ],
)
def test_a_cell_that_is_one_prediction_is_known_by_its_code(source, expected):
    assert question(predicts(source)) == expected

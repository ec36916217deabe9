"""A learner's own copies are made where they are missing and never overwritten."""

import errno
import os
import re
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from residual_course import progress
from residual_course.commands import copies
from residual_course.commands.checkout import notebook_of, with_homework

REAL = Path(__file__).parents[3]
NAMES = ["00_first", "01_second", "homework/hw_00_01"]


def ask(name):
    """The notebook of a lesson with a prediction and an exercise."""
    cells = [
        new_markdown_cell(f"# {name}"),
        new_code_cell(f'guess = predict(\n    "Is {name} " "first?",\n    ["yes", "no"],\n)'),
        new_code_cell("%matplotlib inline\npredict('not asked')"),
        new_code_cell(f'check(answer, "{name}_exercise")\ncheck(answer, name)\nnp.check(1, "no exercise")'),
    ]
    return new_notebook(cells=cells)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout of two lessons and a homework."""
    for name in NAMES:
        source = tmp_path / "notebooks" / "source" / f"{name}.py"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.touch()
        notebook_of(source).parent.mkdir(exist_ok=True)
        nbformat.write(ask(Path(name).stem), notebook_of(source))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def mine(checkout):
    copies.complete(checkout)
    return checkout / "my_lessons"


def add(path, text):
    """Write a note into a notebook, as a learner does."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(new_markdown_cell(text))
    nbformat.write(notebook, path)


def cells(path):
    return [cell.source for cell in nbformat.read(path, as_version=4).cells]


def test_each_lesson_and_homework_is_copied(checkout, mine):
    assert sorted(path.relative_to(mine).as_posix() for path in mine.rglob("*.ipynb")) == [f"{n}.ipynb" for n in NAMES]
    for name in NAMES:
        assert cells(mine / f"{name}.ipynb") == cells(checkout / "notebooks" / f"{name}.ipynb")
    assert copies.remarks(checkout) == []


def test_what_is_there_is_never_overwritten_and_what_is_missing_is_copied(checkout, mine):
    add(mine / "00_first.ipynb", "mine")
    (mine / "01_second.ipynb").unlink()
    copies.complete(checkout)
    assert cells(mine / "00_first.ipynb")[-1] == "mine"
    assert (mine / "01_second.ipynb").exists()


def test_a_newer_lesson_is_told_in_one_line(checkout, mine):
    add(mine / "00_first.ipynb", "my own note does not count")
    add(checkout / "notebooks" / "01_second.ipynb", "new")
    add(checkout / "notebooks" / "homework" / "hw_00_01.ipynb", "new")
    assert copies.remarks(checkout) == [
        "The course has newer versions than your copies of: 01_second, hw_00_01; "
        "`python course.py lab --fresh LESSON` starts one anew and keeps yours."
    ]


def test_new_outputs_alone_are_no_newer_version(checkout, mine):
    path = checkout / "notebooks" / "00_first.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[1].outputs = [nbformat.v4.new_output("stream", text="0.25")]
    nbformat.write(notebook, path)
    assert copies.remarks(checkout) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "{}", '{"cells": 3}'])
def test_a_copy_that_is_no_notebook_is_told_and_can_be_started_anew(checkout, mine, text):
    (mine / "00_first.ipynb").write_text(text)
    (remark,) = copies.remarks(checkout)
    assert remark.endswith("00_first; `python course.py lab --fresh LESSON` starts one anew and keeps yours.")
    copies.start_anew(checkout, ["00"])
    (kept,) = mine.glob("00_first (kept *).ipynb")
    assert kept.read_text() == text
    assert copies.remarks(checkout) == []


def test_a_lesson_is_started_anew_and_the_old_one_kept(checkout, mine):
    add(mine / "01_second.ipynb", "mine")
    progress.change(mine, {"predictions": {"Is 00_first first?": "yes", "Is 01_second first?": "no"}})
    (said,) = copies.start_anew(checkout, ["01"])
    (kept,) = mine.glob("01_second (kept *).ipynb")
    assert re.fullmatch(r"01_second \(kept \d{4}-\d\d-\d\d \d\d\.\d\d\.\d\d\)\.ipynb", kept.name)
    assert said == f"01_second.ipynb is new; the one you worked in is now {kept.name!r}, and its answers are forgotten."
    assert cells(kept)[-1] == "mine"
    assert cells(mine / "01_second.ipynb") == cells(checkout / "notebooks" / "01_second.ipynb")
    assert progress.load(mine)["predictions"] == {"Is 00_first first?": "yes"}  # those of the lesson are open again


def test_twice_anew_in_one_second_keeps_both(checkout, mine):
    for note in ("a", "b", "c"):
        add(mine / "01_second.ipynb", note)
        copies.start_anew(checkout, ["01"])
    assert sorted(cells(path)[-1] for path in mine.glob("01_second (kept *).ipynb")) == ["a", "b", "c"]


def test_a_full_disk_loses_nothing(checkout, mine, monkeypatch):
    add(mine / "01_second.ipynb", "mine")

    def refuse(path, text, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(OSError, match="No space"):
        copies.start_anew(checkout, ["01"])
    assert cells(mine / "01_second.ipynb")[-1] == "mine"
    assert sorted(path.name for path in mine.glob("01*")) == ["01_second.ipynb"]


def test_the_first_unfinished_lesson_is_the_one_with_something_open(checkout, mine):
    assert copies.first_unfinished(checkout) == mine / "00_first.ipynb"
    progress.change(mine, {"predictions": {"Is 00_first first?": "yes"}})
    assert copies.first_unfinished(checkout) == mine / "00_first.ipynb"
    progress.change(mine, {"exercises": {"00_first_exercise": True}})
    assert copies.first_unfinished(checkout) == mine / "01_second.ipynb"
    progress.change(mine, {"predictions": {"Is 01_second first?": "no"}, "exercises": {"01_second_exercise": True}})
    assert copies.first_unfinished(checkout) == mine / "01_second.ipynb"  # all done: the last one


def test_answers_that_cannot_be_read_start_at_the_beginning(checkout, mine):
    (mine / "answers.json").write_text("{")
    assert copies.first_unfinished(checkout) == mine / "00_first.ipynb"
    (remark,) = copies.remarks(checkout)
    assert remark.startswith("my_lessons/answers.json cannot be read, so every lesson counts as open")


def test_a_question_names_one_prediction_and_a_name_one_exercise_in_the_whole_course():
    asked = [copies.asked(notebook_of(source)) for source in with_homework(REAL)]
    for kind in ("predictions", "exercises"):
        names = [name for each in asked for name in each[kind]]
        assert len(names) == len(set(names))
        assert len(names) > 30

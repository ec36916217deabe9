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
from residual_course.commands.assignment import gradable
from residual_course.commands.checkout import notebook_of, with_homework

REAL = Path(__file__).parents[3]
NAMES = ["00_first", "01_second", "homework/hw_00_01"]
WHY = "investigations/00_why"  # which nobody has to do
ANEW = "`python course.py lab --fresh LESSON` starts one anew and keeps yours."


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout of two lessons, each with a prediction and an exercise, a homework, and an investigation."""
    for name in [*(f"source/{name}" for name in NAMES), "investigations/source/00_why"]:
        source, stem = tmp_path / "notebooks" / f"{name}.py", Path(name).stem
        source.parent.mkdir(parents=True, exist_ok=True)
        source.touch()
        notebook_of(source).parent.mkdir(exist_ok=True)
        asks = new_code_cell(f'predict("Is {stem} " "first?", ["yes", "no"])\ncheck(answer, "{stem}_exercise")')
        nbformat.write(new_notebook(cells=[new_markdown_cell(f"# {stem}"), asks]), notebook_of(source))
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


def test_what_is_missing_is_copied_and_what_is_there_is_never_overwritten(checkout, mine):
    there = {path.relative_to(mine).with_suffix("").as_posix() for path in mine.rglob("*.ipynb")}
    assert there == {*NAMES, WHY} and [source.stem for source in gradable(checkout)] == [Path(n).stem for n in NAMES]
    add(mine / "00_first.ipynb", "mine")
    (mine / "01_second.ipynb").unlink()
    copies.complete(checkout)
    assert cells(mine / "00_first.ipynb")[-1] == "mine"
    assert cells(mine / "01_second.ipynb") == cells(checkout / "notebooks" / "01_second.ipynb")
    assert copies.remarks(checkout) == []


def test_a_newer_lesson_is_told_in_one_line_and_new_outputs_alone_are_none(checkout, mine):
    path = checkout / "notebooks" / "00_first.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[1].outputs = [nbformat.v4.new_output("stream", text="0.25")]
    nbformat.write(notebook, path)
    add(mine / "00_first.ipynb", "my own note does not count")
    for name in NAMES[1:]:
        add(checkout / "notebooks" / f"{name}.ipynb", "new")
    said = f"The course has newer versions than your copies of: 01_second, hw_00_01; {ANEW}"
    assert copies.remarks(checkout) == [said]


@pytest.mark.parametrize("text", ["", '{"cells": 3}'])
def test_a_copy_that_is_no_notebook_is_told_and_can_be_started_anew(checkout, mine, text):
    (mine / "00_first.ipynb").write_text(text)
    (remark,) = copies.remarks(checkout)
    assert remark.endswith(f"00_first; {ANEW}")
    copies.start_anew(checkout, ["00"])
    (kept,) = mine.glob("00_first (kept *).ipynb")
    assert kept.read_text() == text and copies.remarks(checkout) == []


def test_a_lesson_is_started_anew_and_the_old_one_kept(checkout, mine):
    add(mine / "01_second.ipynb", "a")
    progress.change(mine, {"predictions": {"Is 00_first first?": "yes", "Is 01_second first?": "no"}})
    assert copies.start_anew(checkout, ["00_why"])[0].startswith("00_why.ipynb is new")  # 00 is the lesson
    (said,) = copies.start_anew(checkout, ["01"])
    (kept,) = mine.glob("01_second (kept *).ipynb")
    assert re.fullmatch(r"01_second \(kept \d{4}-\d\d-\d\d \d\d\.\d\d\.\d\d\)\.ipynb", kept.name)
    assert said == f"01_second.ipynb is new; the one you worked in is now {kept.name!r}, and its answers are forgotten."
    assert cells(mine / "01_second.ipynb") == cells(checkout / "notebooks" / "01_second.ipynb")
    assert progress.load(mine)["predictions"] == {"Is 00_first first?": "yes"}  # those of the lesson are open again
    for note in ("b", "c"):  # in one second
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
    steps = [
        ({}, "00_first"),
        ({"predictions": {"Is 00_first first?": "yes"}}, "00_first"),
        ({"exercises": {"00_first_exercise": True}}, "01_second"),
        ({"predictions": {"Is 01_second first?": "no"}, "exercises": {"01_second_exercise": True}}, "01_second"),
    ]
    for news, name in steps:  # all done: the last one
        progress.change(mine, news)
        assert copies.first_unfinished(checkout) == mine / f"{name}.ipynb"
    (mine / "answers.json").write_text("{")
    assert copies.first_unfinished(checkout) == mine / "00_first.ipynb"
    (remark,) = copies.remarks(checkout)
    assert remark.startswith("my_lessons/answers.json cannot be read, so every lesson counts as open")


def test_a_question_names_one_prediction_and_a_name_one_exercise_in_the_whole_course():
    asked = [copies.asked(notebook_of(source)) for source in with_homework(REAL)]
    for kind in ("predictions", "exercises"):
        names = [name for each in asked for name in each[kind]]
        assert len(names) == len(set(names)) > 30

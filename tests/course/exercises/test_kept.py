"""An exercise whose check has passed is kept in a learner's own copies; one that fails is not."""

import json
from importlib import import_module

import pytest

from residual_course import progress
from residual_course.checking.catalogue import catalogue
from residual_course.checking.check import NotYet
from residual_course.exercises import attempt, check

pytestmark = pytest.mark.usefixtures("all_as_installed")
NAME = "layer_norm_backward"
RIGHT = catalogue()[NAME].reference


@pytest.fixture(autouse=True)
def mine(tmp_path, monkeypatch):
    (tmp_path / "my_lessons").mkdir()
    monkeypatch.chdir(tmp_path / "my_lessons")
    monkeypatch.delenv("RESIDUAL_EDU_STRICT", raising=False)
    return tmp_path / "my_lessons"


def test_a_check_that_passes_is_kept_and_one_that_fails_is_not():
    with pytest.raises(NotYet):
        check(lambda *_: None, NAME)
    assert progress.recall("exercises", NAME) is None
    check(RIGHT, NAME)
    assert progress.recall("exercises", NAME) is True


def test_an_attempt_that_holds_is_kept_and_an_untouched_one_is_not():
    with attempt("faults"):
        raise NotImplementedError
    assert progress.recall("exercises", "faults") is None
    with attempt("faults"):
        pass
    assert progress.recall("exercises", "faults") is True


def test_the_folded_solution_run_as_it_stands_is_not_an_answer_of_one_s_own(mine, monkeypatch, capsys):
    cell = {"cell_type": "code", "source": ["solution\n", "check()"], "metadata": {"tags": ["solution"]}}
    (mine / "02_norm.ipynb").write_text(json.dumps({"cells": [cell]}))
    for source, kept in [("solution\ncheck()", None), ("mine\ncheck()", True)]:
        monkeypatch.setattr(
            import_module("residual_course.checking.check"), "running_cell", lambda source=source: source
        )
        check(RIGHT, NAME)
        assert ("This is the folded solution" in capsys.readouterr().out) is (kept is None)
        assert progress.recall("exercises", NAME) is kept
    monkeypatch.setattr(import_module("residual_course.checking.check"), "running_cell", lambda: "solution\ncheck()")
    monkeypatch.setenv("RESIDUAL_EDU_STRICT", "1")
    check(RIGHT, NAME)
    assert capsys.readouterr().out.endswith("Everything holds.\n")  # as every build prints it


def test_what_cannot_be_kept_is_said_and_the_check_passes(mine, capsys):
    (mine / "answers.json").mkdir()
    check(RIGHT, NAME)
    with attempt("faults"):
        pass
    assert capsys.readouterr().out.count("\nNot kept in my_lessons/answers.json") == 2

"""An exercise whose check has passed is kept in a learner's own copies; one that fails is not."""

import pytest

from residual_edu import progress
from residual_edu.exercises import attempt, check
from residual_edu.exercises.catalogue import catalogue
from residual_edu.exercises.check import NotYet

pytestmark = pytest.mark.usefixtures("as_installed")
NAME = "rms_norm"
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


@pytest.mark.parametrize("way", ["check", "attempt"])
def test_what_cannot_be_kept_is_said_and_the_check_passes(mine, capsys, way):
    (mine / "answers.json").mkdir()
    if way == "check":
        check(RIGHT, NAME)
    else:
        with attempt("faults"):
            pass
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith("Not kept in my_lessons/answers.json")

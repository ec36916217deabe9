from inspect import unwrap
from pathlib import Path

import pytest

from residual_course.exercises import attempt
from residual_edu import InvalidInput


@pytest.mark.parametrize("when", ["autograde", "validate"])
def test_a_stub_is_said_to_be_one_and_fails_only_where_nbgrader_runs_it(capsys, monkeypatch, when):
    with attempt("twice"):
        raise NotImplementedError
    assert capsys.readouterr().out == "twice: not attempted yet.\n"
    monkeypatch.setenv("NBGRADER_EXECUTION", when)
    with pytest.raises(NotImplementedError), attempt("twice"):
        raise NotImplementedError
    assert capsys.readouterr().out == ""


def test_what_fails_is_raised_and_what_holds_is_said(capsys):
    for error in (NotImplementedError("yours"), AssertionError("no"), ZeroDivisionError()):
        with pytest.raises(type(error)), attempt("twice"):
            raise error
    assert capsys.readouterr().out == ""
    with attempt("twice"):
        pass
    assert capsys.readouterr().out.startswith("twice: the tests of this cell hold. ")


def test_a_python_that_skips_asserts_is_refused():
    names = {}
    source = Path(unwrap(attempt).__code__.co_filename).read_text(encoding="utf-8")
    exec(compile(source, "attempt.py", "exec", optimize=1), names)  # as python -O does, and torch with it
    with pytest.raises(InvalidInput, match="^twice: Python runs with -O"), names["attempt"]("twice"):
        pytest.fail("it ran")

"""What a check prints after what was seen: a diagnosis, hints by attempt, notes, or that the session is in the way."""

from dataclasses import replace

import pytest
import torch

from residual_course.checking import report as check_report
from residual_course.checking.catalogue import catalogue
from residual_course.checking.check import NotYet
from residual_course.checking.exercise import Exercise, Mistake, Property, close, draw, run, value_of
from residual_course.checking.report import SOLUTION
from residual_course.checking.session import ATTEMPTS
from residual_course.exercises import check

pytestmark = pytest.mark.usefixtures("as_installed")


def center(x):
    return x - x.mean(-1, keepdim=True)


CENTER = Exercise(
    reference=center,
    observe=lambda f: run(f, draw(2, 3)),
    properties=(
        Property("a row has mean 0", lambda f: close(run(f, draw(4)).mean(), 0.0, "the mean"), hints=(2,)),
        Property("shape and dtype stay", lambda f: run(f, x := draw(2, 3, dtype=torch.float32), like=x)),
        Property("each row is centred by itself", lambda f: close(run(f, x := draw(2, 3)), center(x))),
    ),
    mistakes=(Mistake(lambda x: x - x.mean(), "one mean for all rows", "Give `mean` its axis."),),
    hints=("Which axis is averaged?", "`keepdim=True`."),
)
SEVEN = Exercise(
    reference=lambda: 7,
    observe=lambda f: value_of(f, int),
    properties=(Property("it is the seventh", lambda f: close(value_of(f, int), 7, "the depth")),),
    mistakes=(Mistake(lambda: 8, "one too many", "Count from 0."),),
    hints=("Count.", "Count from 0."),
)


@pytest.fixture(autouse=True)
def exercises(monkeypatch):
    monkeypatch.setitem(catalogue(), "center", CENTER)
    monkeypatch.setitem(catalogue(), "seven", SEVEN)
    monkeypatch.setattr(check_report, "WIDTH", 10_000)  # test_report.py breaks the lines
    ATTEMPTS.clear()


def report(capsys, answer, name="center"):
    """Return the lines that a check prints, and what it raises."""
    error = None
    try:
        check(answer, name)
    except NotYet as caught:
        error = str(caught)
    out, err = capsys.readouterr()
    assert err == "" and "Traceback" not in out
    return out.splitlines(), error


def one_mean(x):
    return x - x.mean()


def test_a_known_mistake_is_named_and_its_mend_comes_with_the_next_attempt(capsys):
    lines, error = report(capsys, one_mean)
    assert lines[0] == "not yet: each row is centred by itself"
    assert lines[1].startswith("         the output at [0, 0] is ") and lines[1].endswith(" is right")
    assert lines[2:] == ["holds:   2 of the 3 properties.", "This looks like one mean for all rows."]
    assert error == "center: 1 of 3 do not hold yet."
    assert report(capsys, lambda x: x - x.mean() + 0)[0][3:] == [
        "This looks like one mean for all rows. Give `mean` its axis."
    ]


UNKNOWN = [
    lambda x: x - x.amax(-1, keepdim=True),
    lambda x: x - x.amin(-1, keepdim=True),
    lambda x: x - 2,
    lambda x: x - 3 * x,
]


def hints(capsys, *answers):
    return [[line for line in report(capsys, f)[0] if line.startswith(("Hint", "One"))] for f in answers]


def test_hints_come_with_the_attempts(capsys):
    """The first property that fails is the mean's, which hint 1 does not concern."""
    assert hints(capsys, *UNKNOWN) == [[], [], ["Hint: `keepdim=True`."], [SOLUTION]]


def test_hint_1_comes_second_where_it_concerns_what_failed(capsys):
    rows = [lambda x: center(x) * (x.ndim == 1), lambda x: center(x) / x.ndim, lambda x: center(x) * x.ndim]
    assert hints(capsys, *rows) == [[], ["Hint: Which axis is averaged?"], ["Hint: `keepdim=True`."]]


def test_the_same_failing_answer_is_one_attempt(capsys):
    first = report(capsys, UNKNOWN[0])
    assert report(capsys, UNKNOWN[0]) == first and len(ATTEMPTS["center"].failed) == 1


def test_mechanical_trouble_brings_no_hint_nearer(capsys):
    broken = [lambda x: None, lambda x: "x", lambda x: 1 / 0, lambda x: x[0, 0, 0], lambda x: undefined]  # noqa: F821
    ends = [report(capsys, f)[0][-1] for f in broken]
    assert ends == ["Mend that first, then check again."] * 3 + [SOLUTION] * 2
    assert not ATTEMPTS["center"].ideas


def test_each_exercise_counts_its_own(capsys):
    hints(capsys, *UNKNOWN)
    assert "Hint" not in str(report(capsys, lambda: 9, "seven")[0])


def test_a_right_answer_is_no_attempt(capsys):
    report(capsys, center)
    assert not ATTEMPTS


@pytest.mark.parametrize("run_by", ["autograde", "validate"])
def test_under_nbgrader_only_what_was_seen_is_said(capsys, monkeypatch, run_by):
    monkeypatch.setenv("NBGRADER_EXECUTION", run_by)
    for _ in range(2):
        lines, error = report(capsys, one_mean)
        assert len(lines) == 3 and lines[2] == "holds:   2 of the 3 properties." and error
    assert not ATTEMPTS


def test_one_cause_is_one_line(capsys):
    assert report(capsys, lambda x: None) == (
        [
            "not yet: a row has mean 0",
            "         it returned nothing (is a `return` missing?), where a tensor was asked for",
            "Mend that first, then check again.",
        ],
        "center: 3 of 3 do not hold yet.",
    )


def test_another_dtype_is_one_note_and_tested_on(capsys, monkeypatch):
    note = "note:    Your answer returned torch.float32 for inputs in torch.float64; it was cast, and tested on."
    x = draw(2, 3)
    inner = Property("shape", lambda f: run(f, x, like=x))
    monkeypatch.setitem(catalogue(), "center", replace(CENTER, properties=(inner, inner, CENTER.properties[2])))
    lines, error = report(capsys, lambda x: center(x).float())
    assert lines[3:] == [note, "Everything holds."] and error is None
    lines, error = report(capsys, lambda x: one_mean(x).float())
    assert lines[3] == note and lines[4].startswith("This looks like one mean") and error


def test_where_the_reference_fails_too_the_session_is_in_the_way(capsys, monkeypatch):
    monkeypatch.setattr(torch, "isclose", lambda a, b, **_: torch.zeros(a.shape, dtype=torch.bool))
    for answer in (center, one_mean):
        lines, error = report(capsys, answer)
        assert "something in this session is in the way" in " ".join(lines) and "Restart the kernel" in " ".join(lines)
        assert error and "looks like" not in str(lines)
    assert not ATTEMPTS


def test_a_diagnosis_is_sure_only_where_the_same_properties_fail(capsys):
    """On the observed (2, 3) it is the known mistake; on other inputs it does something else."""
    odd = lambda x: x - x.mean() if x.shape == (2, 3) else x + 1  # noqa: E731
    assert report(capsys, odd)[0][-1] == "This may be one mean for all rows."

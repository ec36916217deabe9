"""What a check prints: what was seen, a diagnosis, hints by attempt, notes, or that the session is in the way."""

import linecache
import sys
from dataclasses import replace

import pytest
import torch
from torch import nn

from residual_course.checking import report as check_report
from residual_course.checking.catalogue import catalogue
from residual_course.checking.check import NotYet
from residual_course.checking.exercise import Exercise, Mistake, Property, close, draw, run, value_of
from residual_course.checking.report import SOLUTION
from residual_course.checking.session import ATTEMPTS
from residual_course.exercises import check
from residual_edu import InvalidInput

pytestmark = pytest.mark.usefixtures("all_as_installed")


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
    observe=lambda f: value_of(f),
    properties=(Property("it is the seventh", lambda f: close(value_of(f), 7, "the depth")),),
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


def unwritten(*_):
    raise NotImplementedError


class UnwrittenInit(nn.Module):
    def __init__(self, *_):
        raise NotImplementedError


class UnwrittenForward(nn.Module):
    def forward(self, x):
        raise NotImplementedError


@pytest.mark.parametrize("stub", [unwritten, UnwrittenInit, UnwrittenForward(), lambda x: UnwrittenForward()(x)])
def test_an_untouched_stub_is_no_error_but_where_nbgrader_gives_points(capsys, monkeypatch, stub):
    lines = [check_report.not_attempted("center")]
    assert report(capsys, stub) == (lines, None)
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert report(capsys, stub) == (lines, "center: not attempted yet.")


@pytest.mark.parametrize(
    "answer, seen",
    [
        (lambda x: center(x).sum(-1), "it returned shape (2,), where (2, 3) was asked for"),
        (lambda x: center(x).double(), "it returned torch.float64, where torch.float32 was asked for"),
        (lambda x: x.sub_(x.mean(-1, keepdim=True)), "it changed `x` in place; write `x = x - m`, not `x -= m`, and"),
        (nn.Linear, "it raised TypeError: Linear.__init__() missing 1 required positional argument: 'out_features'"),
    ],
)
def test_whatever_it_does_is_a_line_of_the_report(capsys, answer, seen):
    lines, error = report(capsys, answer)
    assert lines[1].startswith(f"         {seen}"), lines
    assert error.startswith("center: ") and lines[-1] == "Mend that first, then check again."
    assert report(capsys, answer) == (lines, error)


@pytest.fixture
def learner(monkeypatch):
    """Return ``answer`` of a learner's cell, its text where Python looks for it."""

    def write(source):
        monkeypatch.setitem(linecache.cache, "<cell>", (len(source), None, source.splitlines(True), "<cell>"))
        cell = {"__name__": "__main__"}
        exec(compile(source, "<cell>", "exec"), cell)
        return cell["answer"]

    return write


def test_the_learners_own_line_is_shown(capsys, learner):
    source = "def helper(x):\n    return x / 'a'\n\ndef answer(x):\n    return helper(x)\n"
    lines, _ = report(capsys, learner(source))
    assert lines[1].endswith("for /: 'Tensor' and 'str' (your line 2: `return x / 'a'`)")
    lines, _ = report(capsys, learner("import torch\ndef answer(x):\n    return torch.ones(2) @ torch.ones(3)\n"))
    assert lines[1].endswith("(your line 3: `return torch.ones(2) @ torch.ones(3)`)")


def test_what_it_prints_is_shown_in_part(capsys):
    def talkative(x):
        for i in range(1000):
            print(f"line {i}", file=sys.stderr if i == 1 else sys.stdout)
        return center(x)

    lines, error = report(capsys, talkative)
    assert lines[3] == "While it was checked, your code printed:" and error is None
    printed = ["line 0", "line 1", "line 2", "line 3", "line 4", "... and 3995 more lines"]
    assert lines[4:] == [*(f"         {line}" for line in printed), "Everything holds."]


def test_answers_that_are_values(capsys):
    assert report(capsys, lambda: 7, "seven") == (["holds:   it is the seventh", "Everything holds."], None)
    assert report(capsys, lambda: 7.0, "seven")[1] is None
    lines, error = report(capsys, lambda: 8, "seven")
    assert lines[-1] == "This may be one too many." and error == "seven: 1 of 1 do not hold yet."  # one number
    assert report(capsys, lambda: None, "seven")[0][-1] == "Mend that first, then check again."


@pytest.mark.parametrize("value", [7, None])
def test_the_function_is_handed_over_and_not_its_result(value):
    with pytest.raises(NotYet, match=r"^seven: hand over the function itself, not what it returns: check\(answer, 's"):
        check(value, "seven")


@pytest.mark.parametrize("name, end", [("sevn", r"got 'sevn'; did you mean 'seven'\?"), (None, "got None")])
def test_an_unknown_exercise_is_refused_with_the_nearest(name, end):
    with pytest.raises(InvalidInput, match=rf"^the exercise must be one of .*'center'.*, {end}$"):
        check(center, name)


def one_mean(x):
    return x - x.mean()


def test_a_known_mistake_is_named_and_its_mend_comes_with_the_next_attempt(capsys):
    lines, error = report(capsys, one_mean)
    assert lines[0] == "not yet: each row is centred by itself"
    assert lines[1].startswith("         the output at [0, 0] is ") and lines[1].endswith(" is right")
    assert lines[2:] == ["holds:   2 of the 3 properties.", "This looks like one mean for all rows."]
    assert error == "center: 1 of 3 do not hold yet."
    named = "This looks like one mean for all rows. Give `mean` its axis."
    assert report(capsys, lambda x: x - x.mean() + 0)[0][3:] == [named]
    assert report(capsys, lambda x: x - x.mean() - 0)[0][3:] == [named, "Hint: `keepdim=True`."]
    assert report(capsys, lambda x: 0 + x - x.mean())[0][3:] == [named, SOLUTION]


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
    twice = [lambda x: x - x.amax(-1, keepdim=True), *UNKNOWN]  # the first two are one attempt
    assert hints(capsys, *twice) == [[], [], [], ["Hint: `keepdim=True`."], [SOLUTION]]
    assert "Hint" not in str(report(capsys, lambda: 9, "seven")[0])  # each exercise counts its own


def test_mechanical_trouble_brings_no_hint_nearer(capsys):
    broken = [lambda x: None, lambda x: "x", lambda x: 1 / 0, lambda x: x[0, 0, 0], lambda x: undefined]  # noqa: F821
    ends = [report(capsys, f)[0][-1] for f in broken]
    assert ends == ["Mend that first, then check again."] * 3 + [SOLUTION] * 2
    assert not ATTEMPTS["center"].ideas


def test_under_nbgrader_a_mistake_is_named_with_its_next_step_and_no_hint_comes(capsys, monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    for _ in range(4):
        lines, error = report(capsys, one_mean)
        assert lines[3:] == ["This looks like one mean for all rows. Give `mean` its axis."] and error
    assert len(report(capsys, UNKNOWN[0])[0]) == 3 and not ATTEMPTS


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

import linecache
import sys
import time

import pytest
import torch
from torch import nn

from residual_course.checking import guard
from residual_course.checking import report as check_report
from residual_course.checking.catalogue import catalogue
from residual_course.checking.check import NotYet
from residual_course.checking.exercise import Exercise, Mistake, Property, close, draw, run, value_of
from residual_course.checking.session import ATTEMPTS
from residual_course.exercises import check
from residual_edu import InvalidInput

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


def test_a_right_answer(capsys):
    lines = ["holds:   a row has mean 0", "holds:   shape and dtype stay", "holds:   each row is centred by itself"]
    assert report(capsys, center) == ([*lines, "Everything holds."], None)


def unwritten(*_):
    raise NotImplementedError


class UnwrittenInit(nn.Module):
    def __init__(self, *_):
        raise NotImplementedError


class UnwrittenForward(nn.Module):
    def forward(self, x):
        raise NotImplementedError


@pytest.mark.parametrize("stub", [unwritten, UnwrittenInit, UnwrittenForward(), lambda x: UnwrittenForward()(x)])
def test_an_untouched_stub(capsys, stub):
    assert report(capsys, stub) == ([check_report.not_attempted("center")], None)


@pytest.mark.parametrize("run_by", ["autograde", "validate"])
def test_nbgrader_gives_an_untouched_stub_no_points(capsys, monkeypatch, run_by):
    monkeypatch.setenv("NBGRADER_EXECUTION", run_by)
    lines = [check_report.not_attempted("center")]
    assert report(capsys, unwritten) == (lines, "center: not attempted yet.")
    assert report(capsys, center)[1] is None


def test_a_module_without_forward_was_attempted(capsys):
    lines, error = report(capsys, nn.Module())
    assert 'it raised NotImplementedError: Module [Module] is missing the required "forward"' in lines[1] and error


@pytest.mark.parametrize(
    "answer, seen",
    [
        (lambda x: center(x).sum(-1), "it returned shape (2,), where (2, 3) was asked for"),
        (lambda x: center(x).double(), "it returned torch.float64, where torch.float32 was asked for"),
        (lambda x: x.sub_(x.mean(-1, keepdim=True)), "it changed `x` in place; write `x = x - m`, not `x -= m`, and"),
        (lambda x: sys.exit(), "it raised SystemExit"),
        (lambda x: 1 / 0, "it raised ZeroDivisionError: division by zero"),
        (lambda: 3, "it raised TypeError: <lambda>() takes 0 positional arguments but 1 was given"),
        (nn.Linear, "it raised TypeError: Linear.__init__() missing 1 required positional argument: 'out_features'"),
        (lambda x: x.numpy().tolist(), "it returned a list, where a tensor was asked for"),
    ],
)
def test_whatever_it_does_is_a_line_of_the_report(capsys, answer, seen):
    lines, error = report(capsys, answer)
    assert lines[1].startswith(f"         {seen}"), lines
    assert error.startswith("center: ") and lines[-1] == "Mend that first, then check again."
    assert report(capsys, answer) == (lines, error)


def test_an_endless_loop_is_stopped_once(capsys, monkeypatch):
    monkeypatch.setattr(guard, "LIMIT", 0.2)

    def loop(x):
        while True:
            pass

    start = time.process_time()
    lines, error = report(capsys, loop)
    assert time.process_time() - start < 2
    assert lines[0] == "not yet: a row has mean 0"
    assert lines[1].startswith("         it did not come to an end in time, and was stopped")
    assert lines[2:] == ["Mend that first, then check again."]
    assert error == "center: 3 of 3 do not hold yet."


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


def test_a_loop_that_is_stopped_is_reported_the_same_each_time(capsys, monkeypatch, learner):
    monkeypatch.setattr(guard, "LIMIT", 0.2)
    answer = learner("def answer(x):\n    i = 0\n    while x.ndim == 1:\n        i += 1\n    return x\n")
    first = report(capsys, answer)
    assert first == report(capsys, answer)
    assert first[0][1].endswith("is there a loop that never ends?")


def test_where_the_text_of_a_line_is_not_at_hand_it_is_left_out(capsys):
    scope = {"__name__": "__main__"}
    # Not "<string>": from Python 3.13 on its text is what stands behind python -c, and so pytest-xdist runs a worker.
    exec(compile("def answer(x): return 1 / 0", "<nowhere>", "exec"), scope)
    assert report(capsys, scope["answer"])[0][1] == "         it raised ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    "count, shown",
    [(1, ["line 0"] * 4), (1000, ["line 0", "line 1", "line 2", "line 3", "line 4", "... and 3995 more lines"])],
)
def test_what_it_prints_is_shown_in_part(capsys, count, shown):
    def talkative(x):
        for i in range(count):
            print(f"line {i}")
        return center(x)

    lines, error = report(capsys, talkative)
    assert lines[3] == "While it was checked, your code printed:"
    assert lines[4:] == [*(f"         {line}" for line in shown), "Everything holds."]
    assert error is None


def test_answers_that_are_values(capsys):
    assert report(capsys, lambda: 7, "seven") == (["holds:   it is the seventh", "Everything holds."], None)
    assert report(capsys, lambda: 7.0, "seven")[1] is None
    lines, error = report(capsys, lambda: 8, "seven")
    assert lines[-1] == "This may be one too many." and error == "seven: 1 of 1 do not hold yet."  # one number
    assert report(capsys, lambda: None, "seven")[0][-1] == "Mend that first, then check again."


@pytest.mark.parametrize("value", [7, None, "seven", torch.ones(3)])
def test_the_function_is_handed_over_and_not_its_result(value):
    with pytest.raises(NotYet, match=r"^seven: hand over the function itself, not what it returns: check\(answer, 's"):
        check(value, "seven")


@pytest.mark.parametrize(
    "name, end", [("sevn", r"got 'sevn'; did you mean 'seven'\?"), ("", "got ''"), (None, "got None"), (3, "got 3")]
)
def test_an_unknown_exercise_is_refused_with_the_nearest(name, end):
    with pytest.raises(InvalidInput, match=rf"^the exercise must be one of .*'center'.*, {end}$"):
        check(center, name)

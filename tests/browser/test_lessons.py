"""Each lesson as a learner meets it: opened, run by the menu, its explorers moved, its questions answered."""

from functools import partial
from pathlib import Path
from statistics import median

import nbformat
import pytest

from .tiny import sound

NOTEBOOKS = sorted(Path(__file__).parents[2].glob("notebooks/*.ipynb"))
LESSONS = [("tiny", sound)] + [(path.stem, partial(nbformat.read, path, as_version=4)) for path in NOTEBOOKS]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.parametrize("lesson", LESSONS, ids=[name for name, _ in LESSONS], indirect=True, scope="module"),
]
QUIET, LIMIT = 100, 250  # milliseconds: the aim on a quiet machine, and what fails on any


def test_it_runs_to_its_end(lesson):
    assert lesson.errors() == []
    assert lesson.faults == []


def test_its_folds_are_closed_and_open(lesson):
    for fold in lesson.folds():
        assert fold.get_attribute("open") is None
        fold.locator("summary").click()
        assert fold.get_attribute("open") is not None


def test_its_solutions_are_hidden_and_open(lesson):
    for solution in lesson.solutions():
        code = solution.locator(".jp-InputArea-editor")
        assert not code.is_visible()
        solution.locator(".jp-Placeholder").first.click()
        assert code.is_visible()


def test_its_predictions_are_answered(lesson):
    for prediction in lesson.predictions():
        assert lesson.answer(prediction).startswith("You said ")


def test_its_explorers_move_by_keyboard_and_in_time(lesson, report):
    for number, explorer in enumerate(lesson.explorers(), 1):
        moves = explorer.by_keyboard()
        times = max(4, -(-10 // len(moves)))  # about twenty presses
        took, slowest = max((median(explorer.latencies(move, times)), move.what) for move in moves)
        bar = f"the {QUIET} ms of a quiet machine {'met' if took < QUIET else 'not met'}"
        report.append(f"{lesson.name}, explorer {number}: {took:.0f} ms, slowest {slowest}; {bar}")
        assert took <= LIMIT, report[-1]


def test_its_explorers_move_by_mouse(lesson):
    for explorer in lesson.explorers():
        for move in explorer.by_mouse():
            explorer.latencies(move, times=1)
        assert explorer.unknown() == 0


def test_nothing_went_wrong_on_the_way(lesson):
    assert lesson.faults == []

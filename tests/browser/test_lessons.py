"""Each lesson as a learner meets it: opened, run by the menu, its explorers moved, its questions answered."""

from functools import partial

import pytest

from .lessons import NOTEBOOKS, TINY, every_lesson, one_whole
from .needed import questions_and_explorers
from .page import NARROW, WIDE

EVERY = [*every_lesson(questions_and_explorers, NOTEBOOKS), *one_whole(), TINY]
pytestmark = [pytest.mark.browser, pytest.mark.parametrize("lesson", EVERY, indirect=True, scope="module")]


def test_it_runs_to_its_end(lesson):
    assert lesson.errors() == []


def test_its_folds_are_closed_and_open(lesson):
    for fold in lesson.folds():
        assert fold.get_attribute("open") is None
        fold.locator("summary").click()
        assert fold.get_attribute("open") is not None


def test_its_solutions_are_hidden_and_open(lesson):
    hidden = [(one, one.locator(".jp-InputArea-editor")) for one in lesson.solutions()]
    assert not any(code.is_visible() for _, code in hidden)
    assert all(one.locator(".jp-Placeholder").count() for one, _ in hidden)
    for solution, code in hidden[::5]:  # JupyterLab opens all of them alike, each in a fifth of a second
        solution.locator(".jp-Placeholder").first.click()
        assert code.is_visible()


def test_its_predictions_are_answered(lesson):
    for prediction in lesson.predictions():
        assert lesson.answer(prediction).startswith("You said ")


def test_its_explorers_move_by_keyboard_in_a_wide_window(lesson):
    lesson.resize(WIDE)
    for explorer in lesson.explorers():
        for move in explorer.by_keyboard():
            explorer.makes(move)


def test_its_explorers_move_by_mouse_in_a_narrow_window(lesson):
    lesson.resize(NARROW)
    for explorer in lesson.explorers():
        for move in explorer.by_mouse():
            explorer.makes(move)
        assert explorer.unknown() == 0


def test_its_explorers_fit_a_phone(lesson):
    for explorer in lesson.explorers():
        assert explorer.overflow(304) == []


def test_what_was_tried_is_cleared_by_keyboard(lesson):
    for explorer in lesson.explorers():
        if explorer.clear.count():
            explorer.try_two()
            assert explorer.changes(partial(explorer.clear.press, "Space"))


def test_nothing_went_wrong_on_the_way(lesson):
    assert lesson.faults == []

"""Lessons as a learner meets them: opened in JupyterLab, and some run by the menu, answered and moved.

What a lesson prints and draws is nbval's business. Here the first lesson and the one that has an explorer are run, but
for their longest trainings, and a tiny one that has all there is; the folds of all lessons are opened in one page.
"""

from functools import partial

import nbformat
import pytest

from .page import NARROW, NOTEBOOKS, WIDE, without_trainings
from .tiny import sound

read = partial(nbformat.read, as_version=4)


def all_that_folds():
    """A notebook of the texts with folds, and of the folded code, of all lessons."""
    cells = [cell for path in NOTEBOOKS for cell in read(path).cells]
    folded = [cell for cell in cells if cell.metadata.get("jupyter", {}).get("source_hidden")]
    kept = [cell for cell in cells if "<details>" in cell.source or cell in folded]
    for number, cell in enumerate(kept):
        cell.id = f"cell-{number}"
    return nbformat.v4.new_notebook(cells=kept, metadata=read(NOTEBOOKS[0]).metadata)


FIRST, ARTIST = (next(path for path in NOTEBOOKS if path.stem.startswith(number)) for number in ("00", "06"))
EVERY = [  # the first stands for all, but with --all
    pytest.param(("00_whole", partial(without_trainings, FIRST), True), id="00_whole", marks=pytest.mark.slow),
    pytest.param(("06_whole", partial(without_trainings, ARTIST), True), id="06_whole", marks=pytest.mark.slow),
    pytest.param(("all", all_that_folds, False), id="all", marks=pytest.mark.slow),
    pytest.param(("tiny", sound, True), id="tiny"),
    pytest.param((FIRST.stem, partial(read, FIRST), False), id=FIRST.stem),
]
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


def test_its_figures_have_twice_the_pixels_they_are_shown_with_and_shrink_with_the_page(lesson):
    figures = lesson.page.locator(".jp-RenderedImage img").all()
    lesson.resize(WIDE)
    for figure in figures:
        pixels, wide, room = figure.evaluate("one => [one.naturalWidth, one.width, one.parentElement.clientWidth]")
        assert abs(pixels - 2 * wide) <= 1 or wide == room < pixels / 2
    lesson.resize(NARROW)
    for figure in figures:
        width, height, room = figure.evaluate("one => [one.width, one.height, one.parentElement.clientWidth]")
        pixels = figure.evaluate("one => [one.naturalWidth, one.naturalHeight]")
        assert width <= room < 600 and height / width == pytest.approx(pixels[1] / pixels[0], abs=0.01)


def test_its_predictions_are_answered(lesson):
    for prediction in lesson.predictions():
        assert lesson.answer(prediction).startswith("You said ")


def test_its_explorers_move_by_keyboard_in_a_narrow_window(lesson):
    lesson.resize(NARROW)
    for explorer in lesson.explorers():
        for move in explorer.moves():
            explorer.makes(move)
        assert explorer.unknown() == 0


def test_its_explorers_fit_a_phone(lesson):
    for explorer in lesson.explorers():
        assert explorer.overflow(304) == []


def test_nothing_went_wrong_on_the_way(lesson):
    assert lesson.faults == []

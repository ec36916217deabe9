"""A prediction in one open cell: Run All gives nothing of it away, and a click shows what its block showed."""

import pytest

from .page import LessonPage
from .tiny import lesson as notebook

ASK = """\
from matplotlib.figure import Figure
from residual_course.lesson import predict, show

with predict("Does 1 + 1 make 2?", ["always", "never"]) as guess:
    print("two", 1 + 1)
    show(Figure(figsize=(2, 1)), alt="Nothing.")
    guess.truth = "always" if 1 + 1 == 2 else "never"
"""
pytestmark = pytest.mark.browser


def test_run_all_tells_nothing_and_a_click_tells_all(lab, chromium):
    page = LessonPage(chromium, lab, "one_cell", notebook(ASK, "print('the next cell', guess.truth == 'always')"))
    try:
        page.run_all()
        first = page.page.locator(".jp-CodeCell").first
        seen, pictures = first.locator(".jp-OutputArea").first, first.locator(".jp-OutputArea img")
        page.page.get_by_text("the next cell True").wait_for()
        page.predictions()[0].locator("button").first.wait_for()
        assert "two 2" not in seen.inner_text() and "measured" not in seen.inner_text() and not pictures.count()
        assert page.answer(page.predictions()[0]) == "You said always; we measured always."
        page.page.get_by_text("two 2", exact=True).wait_for()
        pictures.wait_for()
        assert page.predictions()[0].locator("button").count() == 0 and page.errors() == [] and page.faults == []
    finally:
        page.close()

"""A lesson as it is opened shows nothing of what its predictions and solutions answer; run, it does."""

import re

import nbformat
import pytest

from residual_course.commands.answers import answers_of, apart, join
from residual_course.contents import predicts

from .lessons import NOTEBOOKS, marks
from .page import LessonPage

pytestmark = pytest.mark.browser
ANSWERED = [path for path in NOTEBOOKS if answers_of(path).exists()]


def answers(path):
    """Every sentence, title and alternative text that a lesson's predictions and solutions show."""
    notebook = nbformat.read(path, as_version=4)
    join(notebook, answers_of(path))
    for cell in apart(notebook):
        for output in cell.outputs:
            yield from words(output)
        yield from re.findall(r'set_title\(\s*f?"([^"{]+)', cell.source)


def words(output):
    """The lines that an output shows; of Markdown its first sentence, without marks."""
    data = output.get("data", {})
    yield from filter(None, (line.strip() for line in output.get("text", "").split("\n")))
    yield from [data["text/plain"]] if "image/png" in data else []
    yield from re.findall(r"\*\*(.+?)\*\*", data.get("text/markdown", ""))[:1]


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem, marks=marks(path)) for path in ANSWERED])
def test_an_opened_lesson_holds_no_answer(path, lab, chromium):
    page = LessonPage(chromium, lab, f"opened_{path.stem}", nbformat.read(path, as_version=4))
    try:
        seen = page.page.locator(".jp-Notebook").inner_text()
        seen += " ".join(page.page.locator(".jp-Notebook img").evaluate_all("all => all.map(each => each.alt)"))
        kept = [cell.id for cell in apart(page.notebook) if not predicts(cell.source)]
        told = "".join(cell.source for cell in page.notebook.cells if cell.id not in kept)
        hidden = [text for text in answers(path) if len(text) > 12 and text not in told]
        assert hidden and [text for text in hidden if text in seen] == []
    finally:
        page.close()

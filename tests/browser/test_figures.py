"""A figure in JupyterLab: 600 pixels wide with twice as many to draw them, narrower on a phone, its code folded."""

import pytest

from residual_course.commands.notebook import plan

from .page import NARROW, WIDE, LessonPage

pytestmark = pytest.mark.browser
LESSON = """\
# %%
from matplotlib.figure import Figure
from residual_course.lesson import setup, show
device = setup()

# %% tags=["figure"]
figure = Figure()
figure.add_subplot().plot([0, 1])
show(figure, alt="A line.")
"""


@pytest.fixture(scope="module")
def lesson(lab, chromium, tmp_path_factory):
    path = tmp_path_factory.mktemp("figures") / "figures.py"
    path.write_text(LESSON)
    opened = LessonPage(chromium, lab, "figures", plan(path))
    opened.run_all()
    yield opened
    opened.close()


def test_a_figure_is_600_pixels_wide_and_shrinks_with_the_page(lesson):
    picture = lesson.page.locator(".jp-RenderedImage img")
    cell = lesson.page.locator(".jp-CodeCell").nth(1)
    assert cell.locator(".jp-InputArea-editor").count() == 0 and picture.is_visible()  # its code alone is folded
    lesson.resize(WIDE)
    assert picture.evaluate("image => [image.naturalWidth, image.clientWidth]") == [1200, 600]
    lesson.resize(NARROW)
    wide, high, room = picture.evaluate("image => [image.width, image.height, image.parentElement.clientWidth]")
    assert wide <= room < 600 and high / wide == pytest.approx(0.6, abs=0.01)

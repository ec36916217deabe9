"""The screenshots of the README: what a learner sees."""

from pathlib import Path

from playwright.sync_api import FloatRect

from .moving import box
from .page import LessonPage

LESSON, EXPLORER = "00_residual_connection", "02_layer_norm"
MARGIN = 4  # pixels around an explorer


def take(lesson: LessonPage, folder: Path) -> None:
    """Write the screenshot for which ``lesson`` is the model, if it is one."""
    folder.mkdir(parents=True, exist_ok=True)
    if lesson.name == LESSON:
        take_lesson(lesson, folder / "lesson.png")
    if lesson.name == EXPLORER:
        take_explorer(lesson, folder / "explorer.png")


def take_lesson(lesson: LessonPage, path: Path) -> None:
    """Write JupyterLab with the first prediction answered and what it was about below it, the file browser away."""
    lesson.page.set_viewport_size({"width": 1200, "height": 900})
    lesson.page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
    question = lesson.predictions()[0]
    lesson.answer(question)
    question.evaluate("element => element.scrollIntoView({block: 'start'})")
    lesson.page.wait_for_timeout(500)  # a panel that folds away is animated
    lesson.page.screenshot(path=path)


def take_explorer(lesson: LessonPage, path: Path) -> None:
    """Write the first explorer after its first slider was moved."""
    lesson.page.set_viewport_size({"width": 1200, "height": 1000})
    explorer = lesson.explorers()[0]
    for _ in range(12):
        explorer.sliders[0].press("ArrowLeft")
    explorer.settle()
    explorer.root.evaluate("element => element.scrollIntoView({block: 'center'})")
    whole, picture = box(explorer.root), box(explorer.picture)
    clip: FloatRect = {
        "x": whole["x"] - MARGIN,
        "y": whole["y"] - MARGIN,
        "width": picture["width"] + 2 * MARGIN,
        "height": whole["height"] + 2 * MARGIN,
    }
    lesson.page.screenshot(path=path, clip=clip)

"""The picture of the README that a browser takes: JupyterLab with a lesson."""

from pathlib import Path

from .page import LessonPage

LESSON = "00_whole"


def take(lesson: LessonPage, folder: Path) -> None:
    """Write JupyterLab with the first prediction answered and what it was about below it, the file browser away."""
    if lesson.name != LESSON:
        return
    folder.mkdir(parents=True, exist_ok=True)
    lesson.page.set_viewport_size({"width": 1200, "height": 900})
    lesson.page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
    question = lesson.predictions()[0]
    lesson.answer(question)
    question.evaluate("element => element.scrollIntoView({block: 'start'})")
    lesson.page.wait_for_timeout(500)  # a panel that folds away is animated
    lesson.page.screenshot(path=folder / "lesson.png")

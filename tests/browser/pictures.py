"""The pictures of the README: what a learner sees."""

import base64
import io
from pathlib import Path

import nbformat
from PIL import Image
from playwright.sync_api import FloatRect, Page

from .moving import box
from .page import LessonPage

LESSON, STREAM, EXPLORER = "00_residual_connection", "01_gradient_flow", "02_layer_norm_more"
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
MARGIN = 4  # pixels around an explorer


def take(lesson: LessonPage, folder: Path) -> None:
    """Write the screenshot for which ``lesson`` is the model, if it is one."""
    folder.mkdir(parents=True, exist_ok=True)
    if lesson.name == LESSON:
        take_lesson(lesson, folder / "lesson.png")
    if lesson.name == STREAM:
        (folder / "stream.png").write_bytes(stored(STREAM, "Two rivers"))
    if lesson.name == EXPLORER:
        take_explorer(lesson, folder / "explorer.png")


def stored(name: str, alt: str) -> bytes:
    """Return the stored figure of a lesson whose alternative text begins with ``alt``."""
    cells = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4).cells
    outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
    return next(base64.b64decode(data["image/png"]) for data in outputs if data.get("text/plain", "").startswith(alt))


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


def take_moving(page: Page, path: Path) -> None:
    """Write the open page's first explorer as a moving picture: its sliders go from end to end, one after the other."""
    explorer, frames = page.locator(".explorer").first, list[Image.Image]()
    for slider in explorer.locator("input[type=range]").all():
        start = slider.input_value()
        for value in [*range(int(slider.get_attribute("max")) + 1), start]:
            slider.fill(str(value))
            explorer.locator("img").evaluate("each => each.decode()")
            shot = Image.open(io.BytesIO(explorer.screenshot())).convert("RGB")
            frames.append(shot.quantize(64))
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=700, loop=0, optimize=True)

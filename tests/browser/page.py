"""A lesson open in JupyterLab, and what a learner does to it."""

import time
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page

from residual_course.commands.checkout import is_optional, lessons, notebook_of

from .lab import Lab
from .moving import MovedExplorer

NOTEBOOKS = [notebook_of(source) for source in lessons(Path(__file__).parents[2]) if not is_optional(source)]
WIDE, NARROW = (1280, 800), (600, 800)  # pixels of the two windows in which a lesson is used
BEGAN, LIMIT = time.monotonic(), 1800  # seconds for all waits of a run together: a busy machine is slow, not wrong

READY = "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
# Every cell that has code carries its number, or the run has stopped at an error; then the kernel rests.
FINISHED = """() => {
    const notebook = window.jupyterapp.shell.currentWidget;
    const code = notebook.content.widgets.map(cell => cell.model).filter(cell => cell.type === "code");
    const done = code.every(cell => cell.executionCount || !cell.sharedModel.source.trim());
    const stopped = code.some(cell => cell.outputs.toJSON().some(output => output.output_type === "error"));
    return (done || stopped) && notebook.sessionContext.session.kernel.status === "idle";
}"""
CLOSE = "() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()"
ERRORS = "[data-mime-type='application/vnd.jupyter.stderr'], [data-mime-type='application/vnd.jupyter.error']"


def without_trainings(path: Path) -> NotebookNode:
    """Return a lesson without its longest trainings and what needs them, as the test command has it."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if "slow" not in cell.metadata.get("tags", [])]
    return notebook


def patience() -> float:
    """Return the milliseconds that are left to this run."""
    return max(1.0, 1000 * (LIMIT - (time.monotonic() - BEGAN)))


class LessonPage:
    """One notebook in a page of its own; ``faults`` gathers each error of the page and each request that leaves."""

    def __init__(self, browser: Browser, lab: Lab, name: str, notebook: NotebookNode, address: str = "") -> None:
        self.page: Page = browser.new_page(viewport={"width": WIDE[0], "height": WIDE[1]})
        self.page.set_default_timeout(patience())
        self.lab, self.name, self.notebook, self.faults = lab, name, notebook, list[str]()
        self.page.on("pageerror", lambda error: self.faults.append(f"error in the page: {error}"))
        self.page.on("console", self.heard)
        self.page.on("request", lambda request: self.asked(request.url))
        self.page.on("websocket", lambda socket: self.asked(socket.url.replace("ws", "http", 1)))
        self.page.goto(address or lab.save(name, notebook))
        self.page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
        self.page.wait_for_function(READY)

    def heard(self, message: ConsoleMessage) -> None:
        """Note an error that JupyterLab only logs, such as a widget that it cannot show."""
        if message.type == "error":
            self.faults.append(f"error in the console: {message.text}")

    def asked(self, url: str) -> None:
        """Note a request to anywhere but this JupyterLab."""
        if not url.startswith((self.lab.origin, "data:", "blob:")):
            self.faults.append(f"a request left this machine: {url}")

    def run_all(self) -> None:
        """Run every cell by the Run menu, and wait until the last is done or one has failed."""
        self.page.click("li.lm-MenuBar-item:has-text('Run')")
        self.page.click("li.lm-Menu-item[data-command='runmenu:run-all']")
        self.page.wait_for_function(FINISHED)

    def resize(self, size: Sequence[int]) -> None:
        """Give the window another size; in a narrow one the list of files is folded away."""
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        if size is NARROW:
            self.page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
        self.page.wait_for_timeout(500)  # a panel that folds away is animated

    def errors(self) -> list[str]:
        """Return the last line of each traceback and warning in the notebook."""
        return [text.strip().rpartition("\n")[2] for text in self.page.locator(ERRORS).all_inner_texts()]

    def explorers(self) -> list[MovedExplorer]:
        """Return the explorers, in the order of the page."""
        return [MovedExplorer(root) for root in self.page.locator(".residual-edu-explorer").all()]

    def predictions(self) -> list[Locator]:
        """Return the predictions, in the order of the page."""
        return self.page.locator(".residual-edu-prediction").all()

    def answer(self, prediction: Locator) -> str:
        """By keyboard, press the first choice; return the verdict."""
        prediction.locator("button").first.press("Space")
        return prediction.locator("[role=status]").inner_text()

    def folds(self) -> list[Locator]:
        """Return what folds open on a press of its summary."""
        return self.page.locator(".jp-Notebook details").all()

    def solutions(self) -> list[Locator]:
        """Return the cells whose code the notebook hides."""
        hidden = [bool(cell.metadata.get("jupyter", {}).get("source_hidden")) for cell in self.notebook.cells]
        return [self.page.locator(".jp-Notebook .jp-Cell").nth(place) for place, is_so in enumerate(hidden) if is_so]

    def close(self) -> None:
        """Stop the lesson's kernel and close the page."""
        self.page.evaluate(CLOSE)
        self.page.close()

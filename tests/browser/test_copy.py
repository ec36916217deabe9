"""A learner's copy, opened by the command: answered, summed up, saved, and started anew; the course stays as it was."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

from residual_course.commands.exercise_cells import tags
from tools import build

from .lab import Lab, environment, free_port
from .page import LessonPage, patience

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
LESSON, SECTION = "00_residual_connection", "1.5 or x + y: is it so, then? (And why!)"
LONG = "\n".join(f"# Line {number} of a long text.\n#" for number in range(60))
SOURCE = f"""\
# %% [markdown]
# # 00 · A lesson
#
# It needs the [glossary](../docs/glossary.md).

# %%
from matplotlib.figure import Figure
from residual_course.exercises import check
from residual_course.lesson import predict, progress, setup, show, summary

device = setup()
progress("00")

# %% [markdown]
# ## {SECTION}
#
{LONG}

# %%
with predict("Is 1 below 2?", ["no", "yes"]) as guess:
    print("one is below", 1 + 1)
    show(Figure(figsize=(2, 1)), alt="Nothing.")
    guess.truth = "yes" if 1 < 2 else "no"

# %% [markdown]
# ## Another question
#
{LONG}

# %%
with predict("Is 2 below 1?", ["no", "yes"]) as guess:
    guess.truth = "yes" if 2 < 1 else "no"

# %% [markdown]
# ### Exercise 1 · 5 minutes · ●●○○○

# %% tags=["exercise"] nbgrader={{"grade": false, "grade_id": "dead", "locked": false, "solution": true}}
def dead(x):
    ### BEGIN SOLUTION
    return (x == 0).all(dim=0).float().mean().item()
    ### END SOLUTION

# %% nbgrader={{"grade": true, "grade_id": "dead-check", "locked": true, "points": 1, "solution": false}}
check(dead, "dead")

# %%
summary("00")

# %% [markdown]
# ## Next
"""
ANSWER = """\
def dead(x):
    return 1 - float(x.any(dim=0).float().mean())
"""
RUN = "() => window.jupyterapp.commands.execute('notebook:run-cell')"
IDLE = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle'"
RESTART = "() => window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()"
# How far below the top of the notebook's panel a heading stands, in pixels.
BELOW = """heading => heading.getBoundingClientRect().top
    - window.jupyterapp.shell.currentWidget.node.getBoundingClientRect().top"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A course of one small lesson, with a glossary."""
    root = tmp_path_factory.mktemp("a course")  # with a space in its name
    source = root / "notebooks" / "source" / f"{LESSON}.py"
    source.parent.mkdir(parents=True)
    source.write_text(SOURCE)
    (root / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "glossary.md", root / "docs")
    assert build.build([source]) == 0
    return root


class Command:
    """`residual-edu lab`, running in a checkout, with folders of Jupyter's own."""

    def __init__(self, checkout: Path, *words: str) -> None:
        self.port, self.token, self.home = free_port(), secrets.token_hex(16), checkout / "home"
        self.home.mkdir(exist_ok=True)
        surroundings = environment(self.home)
        surroundings.pop("RESIDUAL_EDU_STRICT", None)  # here answers are to be kept
        options = ["--no-browser", "--allow-root", f"--ServerApp.port={self.port}", "--ServerApp.ip=127.0.0.1"]
        options += [f"--IdentityProvider.token={self.token}", "--LabApp.expose_app_in_browser=True"]
        command = [sys.executable, "-m", "residual_course", "lab", *words, *options]
        self.log = self.home / f"log {self.port}"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, cwd=checkout, env=surroundings, stdout=log, stderr=log, start_new_session=True
            )

    def address(self) -> str:
        """Where it is, once it says so; its starting page leads on to the lesson."""
        while self.process.poll() is None and patience() > 1 and "is running at" not in self.said():
            time.sleep(0.1)
        return f"http://127.0.0.1:{self.port}"

    def said(self) -> str:
        return self.log.read_text()

    def stop(self) -> None:
        os.killpg(self.process.pid, signal.SIGTERM)  # JupyterLab is the command's child, and would go on without it
        self.process.wait(timeout=120)


def learner(chromium, running: Command, checkout: Path) -> LessonPage:
    """The page that the command leads to."""
    lab = Lab(running.address(), running.token, checkout / "my_lessons")
    notebook = nbformat.read(checkout / "my_lessons" / f"{LESSON}.ipynb", as_version=4)
    return LessonPage(chromium, lab, "copy", notebook, address=f"{lab.origin}/?token={running.token}")


def run(page: LessonPage, starts: str, text: str = "") -> str:
    """Run the code cell that begins with ``starts``, with ``text`` in its place where given; return its output."""
    cells = page.notebook.cells
    (place,) = (n for n, cell in enumerate(cells) if cell.source.startswith(starts) and "solution" not in tags(cell))
    page.page.evaluate(
        """([place, text]) => {
            const notebook = window.jupyterapp.shell.currentWidget.content;
            notebook.activeCellIndex = place;
            if (text) notebook.activeCell.model.sharedModel.setSource(text);
        }""",
        [place, text],
    )
    page.page.evaluate(RUN)
    page.page.wait_for_function(IDLE)
    return page.page.locator(".jp-Notebook .jp-Cell").nth(place).locator(".jp-OutputArea").inner_text()


def outputs(page: LessonPage) -> str:
    return page.page.locator(".jp-Notebook").inner_text()


def test_what_one_did_is_summed_up_and_kept_and_a_miss_leads_to_its_section(checkout, chromium, monkeypatch):
    monkeypatch.chdir(checkout)
    before = (checkout / "notebooks" / f"{LESSON}.ipynb").read_bytes()
    running = Command(checkout)
    try:
        page = learner(chromium, running, checkout)
        assert "Nothing answered yet." in outputs(page)  # as it is stored
        page.run_all()  # the folded solution among them, and its check
        wrong, right = page.predictions()
        pictures = page.page.locator(".jp-OutputArea img")
        assert "one is below 2" not in outputs(page) and "we measured" not in outputs(page)
        assert not pictures.count()
        assert page.answer(wrong) == "You said no; we measured yes."
        page.page.get_by_text("one is below 2", exact=True).wait_for()
        pictures.wait_for()
        assert wrong.locator("button").count() == 0
        assert page.answer(right) == "You said no; we measured no."
        said = run(page, "summary(")
        assert "Exercises: 0 of 1 hold" in said  # a solution that ran is no answer of one's own
        run(page, "def dead", ANSWER)
        assert "Everything holds." in run(page, "check(")
        said = run(page, "summary(")
        assert f"Is 1 below 2?\nYou said no; we measured yes. Read again: {SECTION}" in said
        assert "Is 2 below 1?\nYou said no, as measured." in said
        assert "Exercises: 1 of 1 hold" in said and "Exercise 1, dead holds." in said

        heading = page.page.locator(".jp-Notebook h2").first
        link = page.page.get_by_role("link", name=SECTION)
        link.scroll_into_view_if_needed()
        assert heading.evaluate(BELOW) < -500  # far above what is seen
        link.click()
        page.page.wait_for_timeout(500)
        assert 0 <= heading.evaluate(BELOW) < 150  # below the toolbar, at the top

        page.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
        page.page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
        assert "x.any(dim=0)" in (checkout / "my_lessons" / f"{LESSON}.ipynb").read_text()
        page.page.evaluate(RESTART)
        page.page.wait_for_function(IDLE)
        where = run(page, "from matplotlib")
        assert "This is lesson 00. Done (all exercises hold): 00. That is the whole course." in where
        assert run(page, "summary(") == said  # nothing else was run again
        page.run_all()
        assert "You said no; we measured yes." in outputs(page)  # the answer stands there again

        page.page.get_by_role("link", name="glossary").click()
        page.page.locator(".jp-MarkdownViewer h1", has_text="Glossary").wait_for()
        page.page.close()
    finally:
        running.stop()
    assert page.faults == []
    assert f"Opening {Path('my_lessons', LESSON)}.ipynb" in running.said()
    assert build.run(["--check"]) == 0
    assert (checkout / "notebooks" / f"{LESSON}.ipynb").read_bytes() == before

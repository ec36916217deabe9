"""A learner's copy: opened by the command, worked in, saved, and started anew; the course itself stays as it was."""

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

from tools import build

from .lab import Lab, environment, free_port
from .page import LessonPage, patience

pytestmark = pytest.mark.browser
LESSON = "00_residual_connection"
SOURCE = """\
# %% [markdown]
# # A lesson

# %%
from residual_course.lesson import predict, setup
device = setup()

# %%
with predict("Is 1 below 2?", ["no", "yes"]) as guess:
    guess.truth = "yes" if 1 < 2 else "no"

# %%
device
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A course of one small lesson."""
    root = tmp_path_factory.mktemp("a course")  # with a space in its name
    source = root / "notebooks" / "source" / f"{LESSON}.py"
    source.parent.mkdir(parents=True)
    source.write_text(SOURCE)
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


def outputs(page: LessonPage) -> str:
    return page.page.locator(".jp-Notebook").inner_text()


def test_an_evening_of_learning_leaves_the_course_as_it_was(checkout, chromium, monkeypatch, capsys):
    monkeypatch.chdir(checkout)
    before = (checkout / "notebooks" / f"{LESSON}.ipynb").read_bytes()
    running = Command(checkout)
    try:
        page = learner(chromium, running, checkout)
        page.run_all()
        (question,) = page.predictions()
        assert page.answer(question) == "You said no; we measured yes."
        page.page.locator(".jp-CodeCell .cm-content").last.click()
        page.page.keyboard.press("Control+End")
        page.page.keyboard.type("\nprint('mine')")
        page.page.keyboard.press("Control+s")
        copy = checkout / "my_lessons" / f"{LESSON}.ipynb"
        page.page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
        assert "print('mine')" in copy.read_text()

        second = subprocess.run(
            [sys.executable, "-m", "residual_course", "lab"],
            cwd=checkout, env=environment(running.home), capture_output=True, text=True,
        )  # fmt: skip
        assert second.returncode == 2
        assert f"JupyterLab already runs on {checkout}: open http://" in second.stderr

        page.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
        page.run_all()  # nothing was lost: the answer stands there again
        assert "You said no; we measured yes." in outputs(page)
        assert "mine" in outputs(page)
        page.close()
    finally:
        running.stop()
    assert page.faults == []
    assert f"Opening {Path('my_lessons', LESSON)}.ipynb" in running.said()
    capsys.readouterr()
    assert build.run(["--check"]) == 0
    assert (checkout / "notebooks" / f"{LESSON}.ipynb").read_bytes() == before


def test_it_is_started_anew_and_the_old_one_kept(checkout, chromium):
    shutil.rmtree(checkout / "home")
    running = Command(checkout, "--fresh", "00")
    try:
        page = learner(chromium, running, checkout)
        page.run_all()
        assert "Is 1 below 2?" in outputs(page) and "we measured" not in outputs(page)  # asked anew
        assert "mine" not in outputs(page)
        page.close()
    finally:
        running.stop()
    (kept,) = (checkout / "my_lessons").glob(f"{LESSON} (kept *).ipynb")
    assert "print('mine')" in kept.read_text()
    assert re.search(rf"{LESSON}\.ipynb is new; the one you worked in is now '{re.escape(kept.name)}'", running.said())
    assert os.listdir(checkout / "my_lessons" / "homework") == []

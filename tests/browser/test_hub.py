"""A class on the hub of docs/hub.md: two students and a teacher at browsers, from the first link to the feedback."""

import csv
import re
import shutil
import subprocess
from pathlib import Path

import nbformat
import pytest

from residual_course.commands.assignment import teacher as with_solutions
from residual_course.commands.exercise_cells import solved
from residual_course.commands.student import student

from .hub import HAND_OUT, PASSWORD, RETURN, ROOT, hub, missing
from .page import READY, LessonPage, patience
from .test_copy import ANSWER, LESSON, SOURCE, run

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900)]
NAMES = ("teacher", "ada", "bob", "cyd")
SMALL = Path(__file__).parents[1] / "course" / "grading" / "hw_small.txt"
(LINK,) = re.findall(r"HUB:8000/hub/user-redirect/(\S+)", (ROOT / "docs" / "hub.md").read_text(encoding="utf-8"))
LAB = "() => window.jupyterapp?.commands.hasCommand('terminal:create-new')"
SAVED = "() => !window.jupyterapp.shell.currentWidget.context.model.dirty"


class Person(LessonPage):
    """Somebody who logs in, at a browser of their own."""

    def __init__(self, browser, origin: str, folder: Path, name: str, goes: str = "lab") -> None:
        self.page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
        self.page.set_default_timeout(patience())
        self.origin, self.name, self.home = origin, name, folder / "home" / name
        self.page.goto(f"{origin}/hub/user-redirect/{goes}")
        self.page.fill("#username_input", name)
        self.page.fill("#password_input", PASSWORD)
        self.page.click("#login_submit")
        self.page.wait_for_function(LAB)

    def open(self, path: str, goes: str = "") -> None:
        """Open a notebook of one's own home alone, or by a link, and wait for its kernel."""
        self.page.goto(f"{self.origin}/hub/user-redirect/{goes or f'lab/tree/{path}?reset'}")
        self.page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
        self.page.wait_for_function(READY)
        self.notebook = nbformat.read(self.home / path, as_version=4)

    def save(self) -> None:
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
        self.page.wait_for_function(SAVED)

    def types(self, commands: str) -> None:
        """Type commands into a terminal, and wait until they have all worked."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('terminal:create-new')")
        self.page.locator(".xterm-screen").last.click()
        together = " && ".join(commands.strip().splitlines())
        self.page.keyboard.type(f"({together}) >out 2>&1; echo $? >code; mv code done\n")
        done = self.home / "done"
        while patience() > 1 and not done.exists():
            self.page.wait_for_timeout(200)
        assert done.read_text() == "0\n", (self.home / "out").read_text()
        done.unlink()

    def assignments(self, button: str, then: str) -> None:
        """Press a button of nbgrader's list of assignments, and wait for what it leads to."""
        self.page.click("li.lm-MenuBar-item:has-text('Nbgrader')")
        self.page.click("li.lm-Menu-item:has-text('Assignment List')")
        self.page.locator(f"button:text-is('{button}')").first.click()
        self.page.locator(then).first.wait_for(state="attached")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The /srv and /home of the hub's machine, with a course of a small lesson and a small homework."""
    folder = tmp_path_factory.mktemp("hub")
    sources = folder / "srv" / "residual_edu" / "notebooks" / "source"
    (sources / "homework").mkdir(parents=True)
    homework(folder).write_text(SMALL.read_text(encoding="utf-8").replace("NAME", "00_01"), encoding="utf-8")
    shutil.copy(ROOT / ".gitignore", sources.parents[1])
    (sources / f"{LESSON}.py").write_text(SOURCE)
    nbformat.write(student(sources / f"{LESSON}.py"), sources.parent / f"{LESSON}.ipynb")
    git(folder, "init", "--initial-branch=main")
    commit(folder)
    return folder


def homework(folder):
    """The source of the homework, under the name that the guide's commands have."""
    return folder / "srv" / "residual_edu" / "notebooks" / "source" / "homework" / "hw_00_01.py"


@pytest.fixture(scope="module")
def origin(folder, chromium):
    if why := missing():
        pytest.skip(why)
    with hub(folder, NAMES) as address:
        yield address


def git(folder, *words):
    subprocess.run(["git", *words], cwd=folder / "srv" / "residual_edu", check=True, capture_output=True)


def commit(folder):
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=A", "-c", "user.email=a@b.c", "commit", "--message=A change")


def test_a_lesson_comes_by_link_and_work_on_it_is_kept_when_it_changes(origin, folder, chromium):
    path = f"residual_edu/notebooks/{LESSON}.ipynb"
    ada = Person(chromium, origin, folder, "ada")
    ada.open(path, LINK)
    ada.run_all()
    wrong, _ = ada.predictions()
    assert ada.answer(wrong) == "You said no; we measured yes."
    run(ada, "def dead", ANSWER)
    assert "Everything holds." in run(ada, "check(")
    ada.save()
    lesson = folder / "srv" / path
    lesson.write_text(lesson.read_text().replace("## Another question", "## A question said better"))
    commit(folder)
    ada.open(path, LINK)
    assert "x.any(dim=0)" in ada.page.locator(".jp-Notebook").inner_text()
    assert ada.page.locator("h2", has_text="A question said better").count() == 1
    ada.run_all()
    assert "You said no; we measured yes." in ada.page.locator(".jp-Notebook").inner_text()
    ada.page.close()


def test_a_student_has_two_gigabytes_a_process_and_a_home_that_is_closed_to_others(origin, folder, chromium):
    bob = Person(chromium, origin, folder, "bob")
    bob.types("python -c 'bytearray(2**30)'\n! python -c 'bytearray(3 * 2**30)'\n! ls /home/ada\n! ls /srv/hub")
    assert "MemoryError" in (bob.home / "out").read_text()


def test_homework_goes_out_comes_back_and_its_feedback_goes_out(origin, folder, chromium):
    teacher, cyd, bob = (Person(chromium, origin, folder, name) for name in ("teacher", "cyd", "bob"))
    teacher.types(HAND_OUT)
    cells = with_solutions(homework(folder)).cells
    first = next(cell for cell in cells if cell.metadata.get("nbgrader", {}).get("solution"))
    for person in (cyd, bob):
        person.assignments("Fetch", "button:text-is('Submit')")
        if person is cyd:
            cyd.open("hw_00_01/hw_00_01.ipynb")
            run(cyd, first.source.splitlines()[0], solved(first.source))
            cyd.save()
        person.assignments("Submit", "button:text-is('Fetch Feedback')")
    teacher.types(RETURN)
    rows = csv.DictReader((teacher.home / "class" / "scores.csv").read_text().splitlines())
    points = {row["student"]: float(row["points"]) for row in rows}
    assert points["cyd"] > 0 == points["bob"]
    cyd.assignments("Fetch Feedback", "text=view feedback")
    (page,) = (cyd.home / "hw_00_01" / "feedback").rglob("*.html")
    assert "hw_00_01" in page.read_text()

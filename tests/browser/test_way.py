"""The way through a lesson: what one did is summed up, a miss leads to its section, and a restart forgets nothing."""

import shutil
from pathlib import Path

import pytest

from residual_course.commands.exercise_cells import tags
from tools import build

from .page import LessonPage
from .test_copy import LESSON, Command, learner

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
LONG = "\n".join(f"# Line {number} of a long text.\n#" for number in range(60))
SOURCE = f"""\
# %% [markdown]
# # 00 · A lesson
#
# It needs the [glossary](../docs/glossary.md).

# %%
from residual_course.exercises import check
from residual_course.lesson import predict, progress, setup, summary

device = setup()
progress("00")

# %% [markdown]
# ## 1.5 or x + y: is it so, then? (And why!)
#
{LONG}

# %%
with predict("Is 1 below 2?", ["no", "yes"]) as wrong:
    wrong.truth = "yes" if 1 < 2 else "no"

# %% [markdown]
# ## Another question
#
{LONG}

# %%
with predict("Is 2 below 1?", ["no", "yes"]) as right:
    right.truth = "yes" if 2 < 1 else "no"

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
    root = tmp_path_factory.mktemp("a way")
    source = root / "notebooks" / "source" / f"{LESSON}.py"
    source.parent.mkdir(parents=True)
    source.write_text(SOURCE)
    (root / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "glossary.md", root / "docs")
    assert build.build([source]) == 0
    return root


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


def test_what_one_did_is_summed_up_and_a_miss_leads_to_its_section(checkout, chromium):
    running = Command(checkout)
    try:
        page = learner(chromium, running, checkout)
        assert "Nothing answered yet." in page.page.locator(".jp-Notebook").inner_text()  # as it is stored
        page.run_all()  # the folded solution among them, and its check
        wrong, right = page.predictions()
        assert page.answer(wrong) == "You said no; we measured yes."
        assert page.answer(right) == "You said no; we measured no."
        said = run(page, "summary(")
        assert "Exercises: 0 of 1 hold" in said  # a solution that ran is no answer of one's own
        run(page, "def dead", ANSWER)
        assert "Everything holds." in run(page, "check(")
        said = run(page, "summary(")
        assert (
            "Is 1 below 2?\nYou said no; we measured yes. Read again: 1.5 or x + y: is it so, then? (And why!)" in said
        )
        assert "Is 2 below 1?\nYou said no, as measured." in said
        assert "Exercises: 1 of 1 hold" in said
        assert "Exercise 1, dead holds." in said

        heading = page.page.locator(".jp-Notebook h2").first
        link = page.page.get_by_role("link", name="1.5 or x + y: is it so, then? (And why!)")
        link.scroll_into_view_if_needed()
        assert heading.evaluate(BELOW) < -500  # far above what is seen
        link.click()
        page.page.wait_for_timeout(500)
        assert 0 <= heading.evaluate(BELOW) < 150  # below the toolbar, at the top

        page.page.evaluate(RESTART)
        page.page.wait_for_function(IDLE)
        where = run(page, "from residual_course")
        assert "This is lesson 00. Done (all exercises hold): 00. That is the whole course." in where
        assert run(page, "summary(") == said  # nothing else was run again

        page.page.get_by_role("link", name="glossary").click()
        page.page.locator(".jp-MarkdownViewer h1", has_text="Glossary").wait_for()
        page.page.close()
    finally:
        running.stop()
    assert page.faults == []

"""Rules for the order of a lesson: goals and minutes, a picture early, exercises with hints, laws at the end."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

from residual_course.commands.checkout import APPENDIX, is_appendix
from residual_course.commands.exercise_cells import tags
from residual_course.commands.notebook import read_notebook
from tools.lint.cells import called, code_cells, tree

EXERCISES, FIGURE_BY = (3, 5), 4
TABLE = re.compile(r"^[ \t]*\|?[ \t]*:?-+:?[ \t]*\|[ \t:|-]*$", re.M)
MINUTES = re.compile(r"\b\d+ minutes?\b")
GOAL = re.compile(r"^\s*(?:[-*]|\d+\.) ", re.M)
DOTS = re.compile(r"●[●○]*")


def tagged(notebook: NotebookNode, tag: str) -> list[int]:
    """Return the places, counted from 0, of the cells that carry ``tag``."""
    return [place for place, cell in enumerate(notebook.cells) if tag in tags(cell)]


def prose(cells: list[NotebookNode]) -> str:
    """Return the text of the markdown among ``cells``."""
    return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def early_figure(notebook: NotebookNode) -> Iterator[str]:
    """The first figure is shown by the fourth code cell."""
    first = [cell for _, cell in code_cells(notebook)][:FIGURE_BY]
    if not any("explorer" in tags(cell) or shows(cell) for cell in first):
        yield f"none of the first {FIGURE_BY} code cells shows a figure"


def shows(cell: NotebookNode) -> bool:
    """Whether a cell calls ``show``."""
    return any(called(node) == "show" for node in ast.walk(tree(cell)))


def has_explorer(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """A lesson has an explorer, or its appendix has one."""
    appendix = path.with_stem(path.stem + APPENDIX)
    more = read_notebook(appendix) if appendix.exists() else notebook
    if not is_appendix(path) and not tagged(notebook, "explorer") and not tagged(more, "explorer"):
        yield "no cell is tagged explorer"


def exercise_count(notebook: NotebookNode) -> Iterator[str]:
    """A lesson has three to five exercises."""
    count = len(tagged(notebook, "exercise"))
    if not EXERCISES[0] <= count <= EXERCISES[1]:
        yield f"the lesson has {count} exercises, not {EXERCISES[0]} to {EXERCISES[1]}"


def exercise_headings(notebook: NotebookNode) -> Iterator[str]:
    """The cell above an exercise gives its minutes, its difficulty in dots, and two folded hints."""
    for number, place in enumerate(tagged(notebook, "exercise"), 1):
        text = prose(notebook.cells[max(place - 1, 0) : place])
        if not MINUTES.search(text):
            yield f"exercise {number} does not say its minutes in the cell above it"
        if not DOTS.search(text):
            yield f"exercise {number} does not show its difficulty (such as ●●○○○) in the cell above it"
        if text.count("<summary>Hint") != 2:
            yield f"exercise {number} has {text.count('<summary>Hint')} folded hints in the cell above it, not 2"


def opens_with_goals(notebook: NotebookNode) -> Iterator[str]:
    """The first three cells list the goals and say the minutes."""
    text = prose(notebook.cells[:3])
    if len(GOAL.findall(text)) < 2:
        yield "the first three cells list no goals"
    if not MINUTES.search(text):
        yield "the first three cells do not say how many minutes the lesson takes"


def ends_with_laws(notebook: NotebookNode) -> Iterator[str]:
    """One of the last three cells is the table of laws."""
    if not TABLE.search(prose(notebook.cells[-3:])):
        yield "none of the last three cells holds the closing table of laws"


FOR_A_WHOLE_LESSON = [early_figure, exercise_count, opens_with_goals, ends_with_laws]
RULES = [*FOR_A_WHOLE_LESSON, exercise_headings]

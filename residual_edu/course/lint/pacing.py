"""Rules for the pace of a lesson's source: how long, how much prose, when a picture, when a question."""

import ast
import re
from collections.abc import Iterator
from statistics import median

from nbformat import NotebookNode

from residual_edu.course.exercise_cells import tags
from residual_edu.course.lint.cells import called, code_cells, code_lines, tree
from residual_edu.course.promote import targets

CELLS, PROSE_SHARE, EXERCISES = (40, 70), (0.45, 0.70), (3, 5)
MEDIAN_LINES, FIGURE_BY, CELLS_A_PREDICTION = 6, 4, 8
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


def length(notebook: NotebookNode) -> Iterator[str]:
    """A lesson has 40 to 70 cells."""
    if not CELLS[0] <= len(notebook.cells) <= CELLS[1]:
        yield f"the lesson has {len(notebook.cells)} cells, not {CELLS[0]} to {CELLS[1]}"


def half_prose(notebook: NotebookNode) -> Iterator[str]:
    """From 45 to 70 % of its cells are markdown."""
    share = sum(cell.cell_type == "markdown" for cell in notebook.cells) / max(len(notebook.cells), 1)
    if not PROSE_SHARE[0] <= share <= PROSE_SHARE[1]:
        yield f"{share:.0%} of the cells are markdown, not {PROSE_SHARE[0]:.0%} to {PROSE_SHARE[1]:.0%}"


def small_steps(notebook: NotebookNode) -> Iterator[str]:
    """The median code cell, finished pieces and exercises apart, has at most 6 lines of code."""
    lines = [code_lines(c) for _, c in code_cells(notebook) if not targets(c) and "exercise" not in tags(c)]
    if lines and median(lines) > MEDIAN_LINES:
        yield f"the median code cell has {median(lines):g} lines of code, more than {MEDIAN_LINES}"


def early_figure(notebook: NotebookNode) -> Iterator[str]:
    """The first figure is shown by the fourth code cell."""
    first = [cell for _, cell in code_cells(notebook)][:FIGURE_BY]
    if not any("explorer" in tags(cell) or shows(cell) for cell in first):
        yield f"none of the first {FIGURE_BY} code cells shows a figure"


def shows(cell: NotebookNode) -> bool:
    """Whether a cell calls ``show``."""
    return any(called(node) == "show" for node in ast.walk(tree(cell)))


def enough_predictions(notebook: NotebookNode) -> Iterator[str]:
    """A prediction is asked at least every 8 cells on average."""
    asked, cells = len(tagged(notebook, "predict")), len(notebook.cells)
    if asked * CELLS_A_PREDICTION < cells:
        yield f"{asked} predictions in {cells} cells are fewer than one in {CELLS_A_PREDICTION}"


def has_explorer(notebook: NotebookNode) -> Iterator[str]:
    """A lesson has an explorer."""
    if not tagged(notebook, "explorer"):
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


RULES = [
    length,
    half_prose,
    small_steps,
    early_figure,
    enough_predictions,
    has_explorer,
    exercise_count,
    exercise_headings,
    opens_with_goals,
    ends_with_laws,
]

"""From one exercise of a source to what a learner gets: a stub, its check, and a solution folded below.

The marks and the metadata are nbgrader's, so that nbgrader reads these files too. It puts hidden tests back where it
finds their cell, so the cell stays, with a line that says what it is for.
"""

import re
from collections.abc import Iterable, Iterator

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from residual_course.commands.checkout import Refusal

SOLUTION = re.compile(r"^([ \t]*)### BEGIN SOLUTION[ \t]*\n(.*?)^[ \t]*### END SOLUTION[ \t]*$\n?", re.M | re.S)
HIDDEN = re.compile(r"^[ \t]*### BEGIN HIDDEN TESTS.*?^[ \t]*### END HIDDEN TESTS[ \t]*$\n?", re.M | re.S)
PLACE = "# More tests are run here when this notebook is graded."
NOTE = "*One solution is folded below; open it after your own try.*"


def tags(cell: NotebookNode) -> list[str]:
    """Return a cell's tags."""
    return cell.metadata.get("tags", [])


def stub(source: str) -> str:
    """Return ``source`` with each solution blanked."""
    return SOLUTION.sub(r"\1# your code here\n\1raise NotImplementedError\n", source).rstrip("\n")


def solved(source: str) -> str:
    """Return ``source`` with its solutions and without their marks."""
    return SOLUTION.sub(r"\2", source).rstrip("\n")


def shown(source: str) -> str:
    """Return ``source`` without its hidden tests."""
    return HIDDEN.sub("", source).rstrip("\n")


def learner_cells(cells: Iterable[NotebookNode]) -> Iterator[NotebookNode]:
    """Yield the cells that a learner sees: each exercise as stub, check, note and folded solution; hidden tests empty.

    An exercise tagged ``homework`` as well ends with its check.

    Raises:
        Refusal: for an exercise without nbgrader's metadata, without whole solution marks, or without its check.
    """
    visible = iter(cells)
    for cell in visible:
        if "hidden-test" in tags(cell):
            cell.source = PLACE
            yield cell
        elif "exercise" in tags(cell):
            whole = learner_exercise(cell, check_of(cell, next(visible, None)))
            yield from whole[:2] if "homework" in tags(cell) else whole
        else:
            yield cell


def learner_exercise(exercise: NotebookNode, check: NotebookNode) -> list[NotebookNode]:
    """Return stub, check, note and folded solution of one exercise."""
    solution, check.source = solved(exercise.source), shown(check.source)
    exercise.source = stub(exercise.source)
    whole = new_code_cell(f"{solution}\n\n{check.source}", metadata={"tags": ["solution"]})
    return [exercise, check, new_markdown_cell(NOTE), whole]


def check_of(exercise: NotebookNode, below: NotebookNode | None) -> NotebookNode:
    """Return the cell below an exercise, its check, or refuse an exercise that is not whole."""
    grader = exercise.metadata.get("nbgrader", {})
    name = grader.get("grade_id", exercise.source.partition("\n")[0])
    if not grader.get("solution"):
        raise Refusal(f"The exercise {name!r} has no nbgrader metadata with a grade_id and solution: true.")
    if not SOLUTION.search(exercise.source) or "SOLUTION" in solved(exercise.source):
        raise Refusal(f"The exercise {name!r} needs whole pairs of ### BEGIN SOLUTION and ### END SOLUTION.")
    if below is None or not below.metadata.get("nbgrader", {}).get("grade"):
        raise Refusal(f"The exercise {name!r} has no check cell (nbgrader grade: true) right below it.")
    return below

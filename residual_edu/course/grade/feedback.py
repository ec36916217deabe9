"""A notebook for each student: every answer with what its tests said."""

from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from residual_edu.course.grade.assignment import Assignment
from residual_edu.course.grade.score import Mark, Result
from residual_edu.course.notebook import METADATA, name_cells

HIDDEN_TESTS = "# hidden tests, on other inputs"


def write_feedback(result: Result, assignment: Assignment, folder: Path) -> Path:
    """Write the feedback on ``result`` into ``folder``, at the submission's own path, and return where."""
    path = place(result.submission.path, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(nbformat.writes(feedback(result, assignment)) + "\n", encoding="utf-8", newline="\n")
    return path


def place(submission: str, folder: Path) -> Path:
    """Return where the feedback on ``submission`` stands: its path below here, or else from the root."""
    path = Path(submission).resolve()
    inside = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path.relative_to(path.anchor)
    return (folder / inside).with_suffix(".ipynb")


def feedback(result: Result, assignment: Assignment) -> NotebookNode:
    """Return the notebook."""
    of = sum(check.points for check in assignment.checks)
    marks = {mark.check.id: mark for mark in result.marks}
    cells = [new_markdown_cell(f"# {assignment.name}: {result.points:g} of {of:g} points")]
    for task in assignment.tasks:
        own = [marks[check.id] for check in task.checks]
        got, most = sum(mark.points for mark in own), sum(check.points for check in task.checks)
        cells.append(new_markdown_cell(f"## {task.id}: {got:g} of {most:g}"))
        if task.id in result.submission.answers:
            cells.append(new_code_cell(result.submission.answers[task.id]))
        cells += [checked(mark) for mark in own]
    name_cells(cells)
    return new_notebook(cells=cells, metadata=METADATA)


def checked(mark: Mark) -> NotebookNode:
    """Return the cell of one check with its points and what was said; hidden tests stay hidden."""
    said = f"{mark.points:g} of {mark.check.points:g} points\n{mark.said}".strip() + "\n"
    source = HIDDEN_TESTS if mark.check.hidden else mark.check.source
    return new_code_cell(source, outputs=[new_output("stream", text=said)])

"""A source read as the notebook that a learner opens, before any cell has run."""

import ast
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbformat import NotebookNode, from_dict

from residual_course.commands.answers import apart
from residual_course.commands.checkout import Refusal
from residual_course.commands.exercise_cells import learner_cells, tags

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
KEPT = ("cellView", "jupyter", "nbgrader", "tags", "title")
UNFINISHED = re.compile(r'^\s*"?(<{7}|>{7})(?![<>])|^(={7}|\|{7})(?![=|])|\ufffd', re.M)  # as git and nbdime mark
FIGURE = "figure"  # the tag of plotting code: folded, with its output open


def plan(source: Path) -> NotebookNode:
    """Return what ``source`` builds: exercises as learners get them, own cell ids, no output yet.

    Raises:
        Refusal: for what cannot be read, a cell that is no Python, and an exercise that is not whole.
    """
    notebook = read_notebook(source)
    notebook.metadata = from_dict(METADATA)
    try:
        for cell in notebook.cells:
            refuse_no_python(cell)
        notebook.cells = list(learner_cells(notebook.cells))
    except Refusal as refusal:
        raise Refusal(f"{source.name}: {refusal}") from None
    for cell in notebook.cells:
        cell.metadata = from_dict({key: cell.metadata[key] for key in KEPT if key in cell.metadata})
    for cell in apart(notebook):
        if "solution" in tags(cell):
            fold(cell, "hide-cell")
    for cell in notebook.cells:
        if FIGURE in tags(cell) and "hide-cell" not in tags(cell):
            fold(cell, "hide-input")
    name_cells(notebook.cells)
    return notebook


def read_notebook(path: Path) -> NotebookNode:
    """Return a notebook of the course, from its source or as it was built.

    Raises:
        Refusal: for a merge that was not finished, another encoding than UTF-8, and a file that is no notebook.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    if fault := UNFINISHED.search(text):
        line = text.count("\n", 0, fault.end()) + 1
        raise Refusal(f"{path}, line {line}: a merge left its mark here, or it is not UTF-8: mend it, and try again.")
    try:
        if path.suffix == ".ipynb":
            return nbformat.reads(text, as_version=4)
        import jupytext  # for sources alone: it takes half a second

        return jupytext.reads(text, fmt="py:percent")
    except Exception:  # nbformat raises whatever its own code stumbles over
        raise Refusal(f"{path} cannot be read as a notebook: get it anew, or build it.") from None


def refuse_no_python(cell: NotebookNode) -> None:
    """Raise ``Refusal`` for a cell of code that neither Python nor IPython reads."""
    from IPython.core.inputtransformer2 import TransformerManager  # it takes a while, and `lab` needs none

    try:
        ast.parse(TransformerManager().transform_cell(cell.source) if cell.cell_type == "code" else "")
    except (SyntaxError, ValueError) as error:
        raise Refusal(f"the cell {cell.source.partition(chr(10))[0]!r} is no Python: {error}.") from None


def fold(cell: NotebookNode, in_a_book: str) -> None:
    """Hide a cell's code in JupyterLab and Notebook (``source_hidden``), in Colab, and by a tag in a book.

    There ``hide-cell`` folds the output too; ``hide-input`` leaves it open, as the other front ends do.
    """
    cell.metadata |= {"jupyter": {"source_hidden": True}, "cellView": "form"}
    cell.metadata["tags"] = [*tags(cell), in_a_book]


def name_cells(cells: Iterable[NotebookNode]) -> None:
    """Set each cell's id to a hash of what it says, numbered where cells repeat, so that ids outlive a rebuild."""
    seen: Counter[str] = Counter()
    for cell in cells:
        digest = hashlib.sha1((cell.cell_type + cell.source).encode()).hexdigest()[:8]
        seen[digest] += 1
        cell.id = digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"


def outline(notebook: NotebookNode) -> list[str]:
    """Return everything that the source decides, outputs left out, as lines to compare."""
    lines = [json.dumps(notebook.metadata, sort_keys=True)]
    for cell in notebook.cells:
        metadata = json.dumps(cell.metadata, sort_keys=True)
        lines += [f"# %% [{cell.cell_type}] {cell.get('id')} {metadata}", *cell.source.split("\n")]
    return lines


def never_executed(notebook: NotebookNode) -> bool:
    """Whether a code cell of ``notebook`` whose output is stored with it has not run."""
    elsewhere = [cell.id for cell in apart(notebook)]
    return any(
        cell.cell_type == "code" and cell.execution_count is None and cell.id not in elsewhere
        for cell in notebook.cells
    )

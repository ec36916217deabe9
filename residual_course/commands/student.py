"""``residual-edu student``: the notebooks that a class is handed, from the same sources.

Each is the built notebook without what answers it: the folded solutions, and the outputs of the exercises' own cells.
With the notebooks come the guides that they link to, in ``docs``; the package, with all its pieces, is everybody's.
"""

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from residual_course.commands.checkout import Refusal, find_root, notebook_of, with_homework
from residual_course.commands.exercise_cells import NOTE, tags
from residual_course.commands.notebook import plan, read_notebook

GUIDES = ("docs/glossary.md", "docs/coming_from.md")  # the glossary, which lessons link to, and what it links to
# Links to a guide: in the checkout docs stands beside notebooks, in a handout among them.
ABOVE, BESIDE = "../docs/", "docs/"


def run(argv: Sequence[str]) -> int:
    """Write the student versions of the lessons named in ``argv``, or of all."""
    parser = argparse.ArgumentParser(prog="residual-edu student", description="Write what a class is handed.")
    parser.add_argument("out", type=Path, metavar="OUT", help="a new or empty folder")
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="02, or hw_00_01; all where none is given")
    given = parser.parse_args(argv)
    if given.out.exists() and (not given.out.is_dir() or any(given.out.iterdir())):
        raise Refusal(f"{given.out} is not an empty folder, and what stands there might not be for students.")
    root = find_root()
    whole = {source: student(source) for source in with_homework(root, given.lessons)}  # nothing is written before
    for source, notebook in whole.items():
        target = given.out / notebook_of(source).relative_to(root / "notebooks")
        target.parent.mkdir(parents=True, exist_ok=True)
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = cell.source.replace(ABOVE, BESIDE)
        target.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8", newline="\n")
        print(target)
    (given.out / "docs").mkdir()
    for guide in GUIDES:
        shutil.copy(root / guide, given.out / guide)
    return 0


def student(source: Path) -> NotebookNode:
    """Return the student version of ``source``, with the outputs that its built notebook has for unchanged cells.

    Raises:
        Refusal: for an exercise that is not whole.
    """
    notebook, cells = plan(source), built_cells(source)
    outputs = {cell.id: cell.outputs for cell in cells if cell.cell_type == "code"}
    notebook.cells = [cell for cell in notebook.cells if "solution" not in tags(cell) and cell.source != NOTE]
    for cell in notebook.cells:
        cell.source = cell.source.replace("<details open>", "<details>")
        if "nbgrader" in cell.metadata:
            keep(cell)
        elif cell.cell_type == "code":
            cell.outputs = outputs.get(cell.id, [])
    return notebook


def built_cells(source: Path) -> list[NotebookNode]:
    """Return the cells of the built notebook of ``source``; none where there is none, as for a private source."""
    if not any(folder.name == "source" for folder in source.parents) or not (built := notebook_of(source)).exists():
        return []
    return read_notebook(built).cells


def keep(cell: NotebookNode) -> None:
    """Make a cell that is graded hard to delete, and one with tests hard to edit."""
    cell.metadata["deletable"] = False
    if cell.metadata["nbgrader"]["locked"]:
        cell.metadata["editable"] = False

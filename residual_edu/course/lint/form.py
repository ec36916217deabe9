"""Rules for the form of a lesson's source: its imports and its finished pieces."""

import re
from collections.abc import Iterator

from nbformat import NotebookNode

from residual_edu.course.definitions import free_names
from residual_edu.course.lint.cells import VISIBLE_LINES, code_cells, code_lines, is_folded
from residual_edu.course.lint.code import imported, promoted
from residual_edu.course.pieces import targets

IMPORT_LINES = 12


def first_imports_are_few(notebook: NotebookNode) -> Iterator[str]:
    """The first cell that imports has at most 12 lines of code, and imports no checks."""
    own = [(place, cell) for place, cell in code_cells(notebook) if not targets(cell) and imported(cell)]
    for place, cell in own[:1]:
        if code_lines(cell) > IMPORT_LINES:
            yield f"{place} has {code_lines(cell)} lines of code, more than {IMPORT_LINES} for the first imports"
        for name in sorted(imported(cell)):
            if name.startswith("check_"):
                yield f"{place} imports {name}; a lesson leaves checks out"


def promoted_cells_stand_alone(notebook: NotebookNode) -> Iterator[str]:
    """A promoted cell imports what it reads, unless an earlier promoted cell defines it."""
    elsewhere = {name for _, cell in code_cells(notebook) for name in imported(cell) | promoted(cell)}
    earlier: set[str] = set()
    for place, cell in code_cells(notebook):
        if targets(cell):
            earlier |= promoted(cell)
            for name in sorted((free_names(cell.source) & elsewhere) - imported(cell) - earlier):
                yield f"{place} promotes a piece that reads {name!r}, which other cells import; import it here"


def long_pieces_are_folded(notebook: NotebookNode) -> Iterator[str]:
    """A promoted cell of more than 20 lines is folded, and the cell above names it and says that it may be skipped."""
    above = dict(zip([cell.id for cell in notebook.cells[1:]], notebook.cells, strict=False))
    for place, cell in code_cells(notebook):
        if targets(cell) and code_lines(cell) > VISIBLE_LINES:
            if not is_folded(cell):
                yield f"{place} has more than {VISIBLE_LINES} lines of code and is not folded"
            if not announces(above.get(cell.id), promoted(cell)):
                yield f"{place} is long, and the cell above does not name it and say that a first reader may skip it"


def announces(cell: NotebookNode | None, names: set[str]) -> bool:
    """Whether a cell is prose that names one of ``names`` as code and says that something may be skipped."""
    if cell is None or cell.cell_type != "markdown":
        return False
    named = any(re.search(rf"`{name}`", cell.source) for name in names)
    return named and re.search(r"\bskip", cell.source) is not None


RULES = [first_imports_are_few, promoted_cells_stand_alone, long_pieces_are_folded]

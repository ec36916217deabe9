"""Rules for the code of a lesson, in its source and in its notebook."""

import ast
import builtins
import symtable
from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from nbformat import NotebookNode

from residual_edu.course.comparison import TRAINED
from residual_edu.course.exercise_cells import tags
from residual_edu.course.lint.cells import called, code_cells, code_lines, tree
from residual_edu.course.promote import targets

LINES, LINES_PROMOTED, CELLS_IN_A_ROW = 25, 60, 2
# Each fails strict re-execution, or shows nothing on a page without a kernel; pyplot keeps figures alive.
FORBIDDEN = {"interact", "interactive", "interactive_output", "Output", "clear_output", "tqdm", "pyplot"}


def plain_python(notebook: NotebookNode) -> Iterator[str]:
    """A cell is Python alone, without magics or shell commands."""
    for place, cell in code_cells(notebook):
        try:
            ast.parse(cell.source)
        except SyntaxError as error:
            yield f"{place} is not plain Python: {error.msg}"


def promoted_pieces_are_closed(notebook: NotebookNode) -> Iterator[str]:
    """A promoted piece reads only builtins, the notebook's imports, and what the notebook promotes."""
    known = {name for _, cell in code_cells(notebook) for name in imported(cell) | promoted(cell)}
    for place, cell in code_cells(notebook):
        for name in sorted(free_names(cell) - known if targets(cell) else []):
            yield f"{place} promotes a piece that reads the notebook's own {name!r}; import it or pass it in"


def imported(cell: NotebookNode) -> set[str]:
    """Return the names that a cell's imports bind for the whole notebook."""
    imports = [node for node in tree(cell).body if isinstance(node, ast.Import | ast.ImportFrom)]
    return {alias.asname or alias.name.partition(".")[0] for node in imports for alias in node.names}


def promoted(cell: NotebookNode) -> set[str]:
    """Return the names that a cell promotes."""
    body = tree(cell).body if targets(cell) else []
    return {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def free_names(cell: NotebookNode) -> set[str]:
    """Return the names that a cell reads from outside of it, in bodies, defaults, annotations, bases and decorators."""
    top = symtable.symtable(ast.unparse(tree(cell)), "cell", "exec")
    inner = {s.get_name() for table in scopes(top) for s in table.get_symbols() if s.is_global() and s.is_referenced()}
    outer = {s.get_name() for s in top.get_symbols() if s.is_referenced()}
    bound = {s.get_name() for s in top.get_symbols() if s.is_assigned()}
    return (inner | outer) - bound - set(dir(builtins))


def scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    """Yield every scope inside ``table``."""
    for child in table.get_children():
        yield child
        yield from scopes(child)


def no_forbidden_names(notebook: NotebookNode) -> Iterator[str]:
    """A cell uses none of ``FORBIDDEN``."""
    for place, cell in code_cells(notebook):
        for name in sorted(FORBIDDEN & names(cell)):
            yield f"{place} uses {name}, which does not re-execute the same or needs a kernel to show"


def names(cell: NotebookNode) -> set[str]:
    """Return every name, attribute and part of an import in a cell."""
    nodes = list(ast.walk(tree(cell)))
    words = {node.id for node in nodes if isinstance(node, ast.Name)}
    words |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    dotted = [node.name for node in nodes if isinstance(node, ast.alias)]
    dotted += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return words | {part for name in dotted for part in name.split(".")}


def short_cells(notebook: NotebookNode) -> Iterator[str]:
    """A cell has at most 25 lines of code, 60 where a finished piece stands whole."""
    for place, cell in code_cells(notebook):
        limit = LINES_PROMOTED if targets(cell) else LINES
        if code_lines(cell) > limit:
            yield f"{place} has {code_lines(cell)} lines of code, more than {limit}"


def prose_between_code(notebook: NotebookNode) -> Iterator[str]:
    """At most two code cells stand in a row; the empty place of hidden tests is none."""
    at = 1
    for kind, group in groupby(notebook.cells, key=lambda cell: cell.cell_type):
        cells = list(group)
        length = sum("hidden-test" not in cell.metadata.get("tags", []) for cell in cells)
        if kind == "code" and length > CELLS_IN_A_ROW:
            yield f"cells {at} to {at + length - 1} are code; more than {CELLS_IN_A_ROW} in a row need prose between"
        at += len(cells)


def trained_cells_hold(notebook: NotebookNode) -> Iterator[str]:
    """A cell tagged ``trained``, whose numbers nbval does not compare, holds them to bands of its own."""
    for place, cell in code_cells(notebook):
        nodes = list(ast.walk(tree(cell))) if TRAINED in tags(cell) else []
        if nodes and not any(called(node) == "holds" for node in nodes):
            yield f"{place} is tagged trained and has no holds(condition, sentence)"
        if any(isinstance(node, ast.Assert) for node in nodes):
            yield f"{place} is tagged trained and asserts; write holds(condition, sentence)"


def grade_ids_are_unique(notebook: NotebookNode) -> Iterator[str]:
    """No two cells share nbgrader's grade_id."""
    ids = Counter(cell.metadata["nbgrader"]["grade_id"] for cell in notebook.cells if "nbgrader" in cell.metadata)
    yield from (f"the grade_id {name!r} stands on {count} cells" for name, count in ids.items() if count > 1)


RULES = [
    plain_python,
    promoted_pieces_are_closed,
    no_forbidden_names,
    short_cells,
    prose_between_code,
    trained_cells_hold,
    grade_ids_are_unique,
]

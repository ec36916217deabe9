"""Rules for the code of a lesson, in its source and in its notebook."""

import ast
from collections import Counter
from collections.abc import Iterator

from nbformat import NotebookNode

from residual_course.commands.exercise_cells import tags
from residual_course.commands.notebook import FIGURE
from tools.comparison import TRAINED
from tools.lint.cells import called, code_cells, code_lines, tree
from tools.promote import MODULE, PROMOTE, targets

LINES, LINES_PROMOTED = 25, 60
TAGS = {"exercise", "homework", "predict", "reveal", "solution", "runs", "explorer", TRAINED, FIGURE}
TAGS |= {"hidden-test", "many-answers", "nbval-ignore-output", "hide-cell", "hide-input"}
# Each fails strict re-execution, or shows nothing on a page without a kernel; pyplot keeps figures alive.
FORBIDDEN = {"interact", "interactive", "interactive_output", "Output", "clear_output", "tqdm", "pyplot"}


def plain_python(notebook: NotebookNode) -> Iterator[str]:
    """A cell is Python alone, without magics or shell commands."""
    for place, cell in code_cells(notebook):
        try:
            ast.parse(cell.source)
        except SyntaxError as error:
            yield f"{place} is not plain Python: {error.msg}"


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


def trained_cells_hold(notebook: NotebookNode) -> Iterator[str]:
    """A cell tagged ``trained``, whose numbers nbval does not compare, holds them to bands of its own."""
    for place, cell in code_cells(notebook):
        nodes = list(ast.walk(tree(cell))) if TRAINED in tags(cell) else []
        if nodes and not any(called(node) == "holds" for node in nodes):
            yield f"{place} is tagged trained and has no holds(condition, sentence)"
        if any(isinstance(node, ast.Assert) for node in nodes):
            yield f"{place} is tagged trained and asserts; write holds(condition, sentence)"


def tags_are_known(notebook: NotebookNode) -> Iterator[str]:
    """A cell has tags that mean something."""
    for place, cell in code_cells(notebook):
        for tag in sorted(set(tags(cell)) - TAGS):
            if not tag.startswith((PROMOTE, MODULE)):
                yield f"{place} has the tag {tag!r}, which means nothing"


def figures_are_shown(notebook: NotebookNode) -> Iterator[str]:
    """A cell tagged ``figure``, whose code is folded, shows a figure."""
    for place, cell in code_cells(notebook):
        if FIGURE in tags(cell) and not any(called(node) == "show" for node in ast.walk(tree(cell))):
            yield f"{place} is tagged figure and shows none; what else a cell does stays open to read"


def grade_ids_are_unique(notebook: NotebookNode) -> Iterator[str]:
    """No two cells share nbgrader's grade_id."""
    ids = Counter(cell.metadata["nbgrader"]["grade_id"] for cell in notebook.cells if "nbgrader" in cell.metadata)
    yield from (f"the grade_id {name!r} stands on {count} cells" for name, count in ids.items() if count > 1)


RULES = [
    plain_python,
    no_forbidden_names,
    short_cells,
    trained_cells_hold,
    tags_are_known,
    figures_are_shown,
    grade_ids_are_unique,
]

"""Rules for the code of a lesson."""

import ast
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

from residual_course.commands.checkout import companion_of
from residual_course.commands.exercise_cells import tags
from residual_course.commands.notebook import FIGURE
from residual_course.companion import read
from tools.companions import bands
from tools.comparison import TRAINED
from tools.lint.cells import called, code_cells, tree
from tools.promote import MODULE, PROMOTE

COLUMNS = 88
TAGS = {"exercise", "homework", "solution", "explorer", TRAINED, "slow", FIGURE}
TAGS |= {"hidden-test", "many-answers", "nbval-ignore-output", "hide-cell", "hide-input"}
# Each fails strict re-execution, or shows nothing on a page without a kernel; pyplot keeps figures alive.
FORBIDDEN = {"interact", "interactive", "interactive_output", "Output", "clear_output", "tqdm", "pyplot"}


def runs_again(notebook: NotebookNode, source: Path) -> Iterator[str]:
    """A cell is plain Python, without magics, and uses nothing that does not re-execute the same."""
    for place, cell in code_cells(notebook):
        try:
            ast.parse(cell.source)
        except SyntaxError as error:
            yield f"{place} is not plain Python: {error.msg}"
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


def trained_cells_hold(notebook: NotebookNode, source: Path) -> Iterator[str]:
    """A cell tagged ``trained``, whose numbers nbval does not compare, has a band, in its code or its companion."""
    for place, cell in code_cells(notebook):
        says = any(called(node) == "holds" for node in ast.walk(tree(cell)))
        if TRAINED in tags(cell) and not (says or bands(read(companion_of(source)), cell)):
            yield f"{place} is tagged trained, and nothing says what holds of its numbers"


def tags_are_known(notebook: NotebookNode, source: Path) -> Iterator[str]:
    """A cell has tags that mean something: one that is misspelt might show an answer."""
    for place, cell in code_cells(notebook):
        for tag in sorted(set(tags(cell)) - TAGS):
            if not tag.startswith((PROMOTE, MODULE)):
                yield f"{place} has the tag {tag!r}, which means nothing"


def narrow_lines(notebook: NotebookNode, source: Path) -> Iterator[str]:
    """A line of code has at most 88 columns, what a JupyterLab shows beside its list of files."""
    for place, cell in code_cells(notebook):
        longest = max(map(len, cell.source.split("\n")))
        if longest > COLUMNS:
            yield f"{place} has a line of {longest} columns, more than {COLUMNS}"


RULES = [runs_again, trained_cells_hold, tags_are_known]

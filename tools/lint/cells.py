"""What the rules have in common: cells with their numbers, their Python, their lines."""

import ast
from collections.abc import Iterator

from nbformat import NotebookNode

VISIBLE_LINES = 20  # of code; a finished piece that is longer is folded


def code_cells(notebook: NotebookNode) -> Iterator[tuple[str, NotebookNode]]:
    """Yield each code cell with the words that name it: its number among all cells and its first line."""
    for number, cell in enumerate(notebook.cells, 1):
        if cell.cell_type == "code":
            yield f"cell {number} ({cell.source.strip().partition(chr(10))[0][:40]})", cell


def tree(cell: NotebookNode) -> ast.Module:
    """Return a cell's syntax tree, empty where it is not plain Python (``plain_python`` says so)."""
    try:
        return ast.parse(cell.source)
    except SyntaxError:
        return ast.Module(body=[], type_ignores=[])


def code_lines(cell: NotebookNode) -> int:
    """Return how many lines of a cell are code: no blank line, comment or docstring."""
    strings = [node for node in ast.walk(tree(cell)) if isinstance(node, ast.Expr) and is_text(node.value)]
    prose = {line for node in strings for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    lines = [line.strip() for number, line in enumerate(cell.source.split("\n"), 1) if number not in prose]
    return sum(bool(line) and not line.startswith("#") for line in lines)


def is_folded(cell: NotebookNode) -> bool:
    """Whether a cell's code is closed until a reader opens it."""
    return bool(cell.metadata.get("jupyter", {}).get("source_hidden"))


def called(node: ast.AST) -> str:
    """Return the last name of what a call calls, ``show`` for ``lesson.show(figure)``; empty for what is no call."""
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "id", getattr(function, "attr", ""))


def is_text(value: ast.expr) -> bool:
    """Whether ``value`` is a string written out, which as a statement is a docstring."""
    return isinstance(value, ast.Constant) and isinstance(value.value, str)

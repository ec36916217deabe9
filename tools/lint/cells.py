"""What the rules have in common: cells with the words that name them, their Python, their lines."""

import ast
from collections.abc import Iterator

from nbformat import NotebookNode


def code_cells(notebook: NotebookNode) -> Iterator[tuple[str, NotebookNode]]:
    """Yield each code cell with the words that name it: its number among all cells and its first line."""
    for number, cell in enumerate(notebook.cells, 1):
        if cell.cell_type == "code":
            yield f"cell {number} ({cell.source.strip().partition(chr(10))[0][:40]})", cell


def prose(notebook: NotebookNode) -> str:
    """Return the text of all Markdown."""
    return "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def tree(cell: NotebookNode) -> ast.Module:
    """Return a cell's syntax tree, empty where it is not plain Python (``runs_again`` says so)."""
    try:
        return ast.parse(cell.source)
    except SyntaxError:
        return ast.Module(body=[], type_ignores=[])


def code_lines(cell: NotebookNode) -> int:
    """Return how many lines of a cell are code: no blank line, comment, docstring or import."""
    nodes = list(ast.walk(tree(cell)))
    left_out: list[ast.stmt] = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    left_out += [node for node in nodes if isinstance(node, ast.Expr) and is_text(node.value)]
    other = {line for node in left_out for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    lines = [line.strip() for number, line in enumerate(cell.source.split("\n"), 1) if number not in other]
    return sum(bool(line) and not line.startswith("#") for line in lines)


def called(node: ast.AST) -> str:
    """Return the last name of what a call calls, ``show`` for ``lesson.show(figure)``; empty for what is no call."""
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "id", getattr(function, "attr", ""))


def is_text(value: ast.expr) -> bool:
    """Whether ``value`` is a string written out, which as a statement is a docstring."""
    return isinstance(value, ast.Constant) and isinstance(value.value, str)

"""A new piece: written from its lesson into its module, with the imports that it needs there."""

import ast

import jupytext

from residual_edu.course.definitions import bound_names, free_names
from residual_edu.course.imports import Import, imports_in
from residual_edu.course.layout import sorted_imports
from residual_edu.course.lint.cells import tree
from residual_edu.course.pieces import Piece, dotted, pieces_of


def write(piece: Piece) -> set[str]:
    """Put the piece at its module's end, and what it needs among the imports; return names that nothing binds there."""
    text = piece.module.read_text(encoding="utf-8") if piece.module.exists() else ""
    missing, known = free_names(piece.definition.text) - bound_names(text), importable(piece)
    lines = text.rstrip("\n").split("\n") if text else []
    lines[end_of_imports(text) : end_of_imports(text)] = [str(known[name]) for name in sorted(missing & known.keys())]
    whole = "\n".join([*lines, "", "", piece.definition.text]).lstrip("\n") + "\n"
    piece.module.write_text(sorted_imports(whole, piece.module), encoding="utf-8", newline="\n")
    return missing - known.keys()


def importable(piece: Piece) -> dict[str, Import]:
    """Return how a module may import the names that the piece's lesson imports, or promotes to other modules."""
    package = next(folder for folder in piece.module.parents if folder.name == "residual_edu")
    cells = jupytext.read(piece.lesson, fmt="py:percent").cells
    known = [each for cell in cells if cell.cell_type == "code" for each in imports_in(tree(cell).body)]
    known += [Import(dotted(other.module), other.definition.name) for other in pieces_of(piece.lesson, package)]
    return {each.bound: each for each in known}


def end_of_imports(text: str) -> int:
    """Return the line, counted from 0, below a module's last import, or below its docstring where it has none."""
    body = ast.parse(text).body
    ends = [node.end_lineno or 0 for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    words = body[:1] if ast.get_docstring(ast.Module(body, [])) is not None else []
    return max(ends, default=max((node.end_lineno or 0 for node in words), default=0))

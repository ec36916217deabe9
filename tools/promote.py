"""``residual-edu promote``: a lesson shows a finished piece as its module has it, each docstring cut to a line.

A cell tagged ``promote:parts/layer_norm`` holds the imports that it needs, then whole definitions of
``residual_edu/parts/layer_norm.py``: the module's own text, and nothing else differs.
"""

import argparse
import ast
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode

from residual_course.commands.checkout import Refusal, find_root, lessons
from residual_course.commands.exercise_cells import tags
from residual_course.commands.notebook import read_notebook

PROMOTE = "promote:"  # begins the tag of a cell that shows a module's pieces,
MODULE = "module:"  # and of one that only imports them, for which a book has a link


class Piece(NamedTuple):
    """A cell of a lesson, the module whose definitions it shows, and its text as the module has it."""

    lesson: Path
    module: str
    cell: str
    expected: str


def run(argv: Sequence[str]) -> int:
    """Compare the pieces that lessons show with their modules, or copy them anew."""
    parser = argparse.ArgumentParser(prog="residual-edu promote", description="Compare lessons' pieces with modules.")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--check", action="store_true", help="write nothing; show the differences")
    how.add_argument("--refresh", action="store_true", help="write the modules' text into the lessons")
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="02; all where none is given")
    given, root = parser.parse_args(argv), find_root()
    every = [piece for lesson in lessons(root, given.lessons) for piece in pieces(lesson, root)]
    other = [piece for piece in every if piece.cell != piece.expected]
    for piece in other:
        sides = piece.cell.splitlines(), piece.expected.splitlines()
        print(*unified_diff(*sides, piece.lesson.name, f"residual_edu/{piece.module}.py", lineterm=""), sep="\n")
        if given.refresh:
            text = piece.lesson.read_text(encoding="utf-8").replace(piece.cell, piece.expected)
            piece.lesson.write_text(text, encoding="utf-8", newline="\n")
    print(f"{len(every) - len(other)} of {len(every)} cells show their modules' text.")
    return int(bool(other) and given.check)


def pieces(lesson: Path, root: Path) -> Iterator[Piece]:
    """Yield the cells of a lesson that show a module's definitions.

    Raises:
        Refusal: for a module or a definition that there is not.
    """
    for cell in read_notebook(lesson).cells:
        for module in targets(cell, PROMOTE):
            path = root / "residual_edu" / f"{module}.py"
            if not path.exists():
                raise Refusal(f"{lesson.name}: a cell is tagged {PROMOTE}{module}, and there is no {path}.")
            has = definitions(path.read_text(encoding="utf-8"))
            if unknown := [name for name in definitions(cell.source) if name not in has]:
                raise Refusal(f"{lesson.name} shows {', '.join(unknown)} of {path}, which has no such definition.")
            yield Piece(lesson, module, cell.source, expected(cell.source, has))


def targets(cell: NotebookNode, *marks: str) -> list[str]:
    """Return the modules that a cell is tagged with, such as ``parts/layer_norm``."""
    return [tag.removeprefix(mark) for mark in marks or (PROMOTE, MODULE) for tag in tags(cell) if tag.startswith(mark)]


def expected(cell: str, module: dict[str, str]) -> str:
    """Return the text of a cell with its definitions as the module has them; what stands before them stays."""
    starts = [first_line(node) for node in ast.parse(cell).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    before = cell.split("\n")[: min(starts) - 1] if starts else []
    return "\n".join([*before, "\n\n\n".join(module[name] for name in definitions(cell))])


def definitions(text: str) -> dict[str, str]:
    """Return the classes and functions of a module by name, each as its text has it, docstrings cut to a line."""
    lines, found = text.split("\n"), {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            cut = [doc for each in ast.walk(node) if (doc := docstring(each))]
            found[node.name] = "\n".join(without(lines, cut, first_line(node), node.end_lineno or node.lineno))
    return found


def first_line(node: ast.FunctionDef | ast.ClassDef) -> int:
    """Return the number of a definition's first line, its decorators counted."""
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])


def docstring(node: ast.AST) -> ast.Expr | None:
    """Return the docstring of a class or function; None of any other node."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node, clean=False) is not None:
        return node.body[0]  # type: ignore[return-value]
    return None


def without(lines: Sequence[str], docstrings: Sequence[ast.Expr], start: int, end: int) -> Iterator[str]:
    """Yield the lines from ``start`` to ``end``, of docstrings that have several only the first."""
    ends = {each.lineno: each.end_lineno or each.lineno for each in docstrings}
    at = start
    while at <= end:
        several = ends.get(at, at) > at
        yield lines[at - 1] + ('"""' if several else "")
        at = ends.get(at, at) + 1

"""The classes and functions at the top of a text, as text, and the names that they read and bind."""

import ast
import builtins
import symtable
from collections.abc import Iterator
from dataclasses import dataclass

from residual_edu.course.checkout import Refusal


@dataclass(frozen=True)
class Definition:
    """A class or function: its name, its own text, and where its lines stand, counted from 0."""

    name: str
    text: str
    first: int
    end: int


def parse(text: str, place: str) -> list[ast.stmt]:
    """Return the statements of ``text``, which stands at ``place``.

    Raises:
        Refusal: where it is not Python.
    """
    try:
        return ast.parse(text).body
    except SyntaxError as error:
        raise Refusal(f"{place} is not valid Python: {error.msg} in line {error.lineno}.") from None


def definitions(text: str, place: str) -> dict[str, Definition]:
    """Return the classes and functions at the top of ``text`` by name, with decorators and comments right above."""
    lines, found = text.split("\n"), {}
    for node in parse(text, place):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            first = min(part.lineno for part in (node, *node.decorator_list)) - 1
            while first and lines[first - 1].startswith("#"):
                first -= 1
            own = "\n".join(lines[first : node.end_lineno])
            found[node.name] = Definition(node.name, own, first, first + own.count("\n") + 1)
    return found


def loose_statement(text: str, place: str) -> str | None:
    """Return the first line of what is no class or function, nor an import before them, or ``None``."""
    only: tuple[type[ast.stmt], ...] = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    for node in parse(text, place):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            only = (ast.FunctionDef, ast.ClassDef)
        if not isinstance(node, only):
            return text.split("\n")[node.lineno - 1]
    return None


def free_names(text: str) -> set[str]:
    """Return the names that ``text`` reads from outside of it: in bodies, defaults, annotations, bases, decorators."""
    top = symtable.symtable(text, "text", "exec")
    inner = {s.get_name() for table in scopes(top) for s in table.get_symbols() if s.is_global() and s.is_referenced()}
    outer = {s.get_name() for s in top.get_symbols() if s.is_referenced()}
    bound = {s.get_name() for s in top.get_symbols() if s.is_assigned()}
    return (inner | outer) - bound - set(dir(builtins))


def scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    """Yield every scope inside ``table``."""
    for child in table.get_children():
        yield child
        yield from scopes(child)


def bound_names(text: str) -> set[str]:
    """Return the names that ``text`` binds at its top: what it defines, assigns and imports."""
    symbols = symtable.symtable(text, "text", "exec").get_symbols()
    return {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}

"""The classes and functions at the top of a text, as text."""

import ast
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
    """Return the classes and functions at the top of ``text`` by name, each with its decorators."""
    lines, found = text.split("\n"), {}
    for node in parse(text, place):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            first = min(part.lineno for part in (node, *node.decorator_list)) - 1
            own = "\n".join(lines[first : node.end_lineno])
            found[node.name] = Definition(node.name, own, first, first + own.count("\n") + 1)
    return found


def loose_statement(text: str, place: str) -> str | None:
    """Return the first line of the first statement of ``text`` that is no class or function, if there is one."""
    for node in parse(text, place):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            return text.split("\n")[node.lineno - 1]
    return None

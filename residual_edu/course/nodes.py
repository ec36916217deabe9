"""Small helpers for libcst's trees, which keep comments and layout."""

from collections.abc import Sequence
from typing import Any

import libcst as cst


def last_name(node: cst.BaseExpression) -> str:
    """Return the last name of a dotted one, of what a call calls, or of what a subscript takes from; else nothing."""
    while isinstance(node, cst.Call | cst.Subscript):
        node = node.func if isinstance(node, cst.Call) else node.value
    node = node.attr if isinstance(node, cst.Attribute) else node
    return node.value if isinstance(node, cst.Name) else ""


def is_raise(body: cst.BaseSuite) -> bool:
    """Whether a body is one ``raise``."""
    only = body.body[0] if len(body.body) == 1 else None
    return isinstance(only, cst.SimpleStatementLine) and [type(each) for each in only.body] == [cst.Raise]


def block(statements: Sequence[Any]) -> cst.IndentedBlock:
    """Return statements as a body that begins without a blank line."""
    first, *others = statements or [None]
    if first is None:
        return cst.IndentedBlock([])
    lines = list(first.leading_lines)
    while lines and lines[0].comment is None:
        del lines[0]
    return cst.IndentedBlock([first.with_changes(leading_lines=lines), *others])


def is_text(statement: cst.CSTNode) -> bool:
    """Whether a statement is a string alone."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    return isinstance(small, cst.Expr) and isinstance(small.value, cst.SimpleString)

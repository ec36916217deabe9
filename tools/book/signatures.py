"""Signatures in the library's reference as their source writes them: shapes and units, and no address of a check."""

import ast
import inspect
import re
import textwrap
from contextlib import suppress
from functools import cache
from typing import Any

from sphinx.application import Sphinx

STARRED = re.compile(r"(?<![\w*`\\])\*(?=\w+[,)])")  # (*batch, channels), where Sphinx would begin an emphasis


def written(app: Sphinx, what: str, name: str, found: Any, *rest: Any) -> tuple[str, str | None] | None:
    """Return arguments and result of a function, method or class as its source writes them, shapes and units too."""
    if what == "class":
        return next(filter(None, map(of_class, found.__mro__)), None)
    tree = source(found) if what in ("function", "method") else None
    return signature(tree, bound=what == "method") if isinstance(tree, ast.FunctionDef) else None


def source(found: Any) -> ast.stmt | None:
    """Return the definition of a class or function; None of what has none in Python."""
    with suppress(TypeError, OSError, IndentationError):
        return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(found)))).body[0]
    return None


@cache
def of_class(found: type) -> tuple[str, str | None] | None:
    """Return the arguments of a class itself: those of its ``__init__``, or the fields of a dataclass or NamedTuple."""
    body = getattr(source(found), "body", ())
    for each in body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            return signature(each, bound=True)
    fields = [ast.unparse(each) for each in body if isinstance(each, ast.AnnAssign)]
    return (f"({', '.join(fields)})", None) if fields else None


def signature(tree: ast.FunctionDef, bound: bool) -> tuple[str, str | None]:
    """Return the arguments, without ``self`` where it is bound, and the result."""
    static = any(isinstance(each, ast.Name) and each.id == "staticmethod" for each in tree.decorator_list)
    first = tree.args.posonlyargs or tree.args.args
    if bound and first and not static:
        del first[0]
    result = tree.returns and tree.name != "__init__" and ast.unparse(tree.returns)
    return f"({ast.unparse(tree.args)})", result or None


def starred(app: Sphinx, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Keep the star of a shape such as (*batch, channels)."""
    lines[:] = [STARRED.sub(r"\\*", line) for line in lines]

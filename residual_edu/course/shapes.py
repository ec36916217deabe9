"""The shapes in a signature as comments, which stay in a lesson where the annotations go.

``x: Float[Tensor, "batch *space channels"]`` becomes ``# x: batch, ..., channels``. Three dots stand for any number of
axes, ``batch or 1`` for an axis of length 1 that serves all. Arguments of one shape share an entry, and the result has
one where its shape is none of theirs.
"""

import ast
from collections.abc import Iterator, Mapping

import jaxtyping

DTYPES = {
    name for name, one in vars(jaxtyping).items() if isinstance(one, type) and issubclass(one, jaxtyping.AbstractDtype)
}


def shape_comments(arguments: Mapping[str, str], returns: str, width: int) -> list[str]:
    """Return the comment lines, each at most ``width`` long, for annotations given as text; none without arrays."""
    shapes: dict[str, list[str]] = {}
    for name, annotation in arguments.items():
        if (found := shape(annotation)) is not None:
            shapes.setdefault(found, []).append(name)
    entries = [f"{', '.join(names)}: {axes}" for axes, names in shapes.items()]
    result = shape(returns)
    if result is not None and result not in shapes:
        entries.append(f"result: {result}")
    return list(packed(entries, width - len("# ")))


def packed(entries: list[str], width: int) -> Iterator[str]:
    """Yield the entries as comment lines, as many on each as fit."""
    line = ""
    for entry in entries:
        if line and len(f"{line}; {entry}") > width:
            yield f"# {line}"
            line = ""
        line = f"{line}; {entry}" if line else entry
    if line:
        yield f"# {line}"


def shape(annotation: str) -> str | None:
    """Return the axes that an annotation names, ``None`` where it is not that of an array."""
    if not annotation:
        return None
    found = [axes(member) for member in members(ast.parse(annotation, mode="eval").body)]
    return " or ".join(dict.fromkeys(each for each in found if each is not None)) or None


def members(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the members of a union, or the annotation itself."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield from members(node.left)
        yield from members(node.right)
    else:
        yield node


def axes(node: ast.expr) -> str | None:
    """Return the axes of ``Float[Tensor, "batch channels"]`` and its like as ``batch, channels``."""
    if not (isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple)):
        return None
    words = node.slice.elts[-1]
    if ast.unparse(node.value) not in DTYPES or not isinstance(words, ast.Constant):
        return None
    named = ", ".join(axis(word) for word in str(words.value).split())
    return {"": "a single number", "...": "any shape"}.get(named, named)


def axis(word: str) -> str:
    """Return how one axis in jaxtyping's notation is written for a reader."""
    name = word.lstrip("*#?").strip("{}")
    marks = word[: len(word) - len(word.lstrip("*#?"))]
    if "*" in marks or word == "...":
        return "..."
    return f"{name} or 1" if "#" in marks else name

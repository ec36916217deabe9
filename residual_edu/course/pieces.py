"""The pieces that lessons promote: which cell shows which class or function of which module."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jupytext
from nbformat import NotebookNode

from residual_edu.course.checkout import Refusal, lessons
from residual_edu.course.definitions import Definition, definitions, loose_statement
from residual_edu.course.drafts import is_draft
from residual_edu.course.exercise_cells import tags

TARGET = re.compile(r"[a-z][a-z0-9_]*/[a-z][a-z0-9_]*|config")


@dataclass(frozen=True)
class Piece:
    """A definition that a lesson promotes to a module, such as ``residual_edu/parts/layer_norm.py``."""

    lesson: Path
    module: Path
    definition: Definition

    def __str__(self) -> str:
        return f"{self.definition.name} of {dotted(self.module).replace('.', '/')}.py"

    def in_module(self) -> Definition | None:
        """Return the definition of that name in the module, if there is one."""
        text = self.module.read_text(encoding="utf-8") if self.module.exists() else ""
        return definitions(text, str(self.module)).get(self.definition.name)


def dotted(module: Path) -> str:
    """Return the name by which a module is imported, such as ``residual_edu.parts.layer_norm``."""
    parts = module.with_suffix("").parts
    return ".".join(parts[len(parts) - 1 - parts[::-1].index("residual_edu") :])


def pieces(root: Path) -> list[Piece]:
    """Return every piece that the lessons promote, drafts left out.

    Raises:
        Refusal: for a tag that names no module, a loose statement in a tagged cell, or a piece promoted twice.
    """
    found: dict[tuple[Path, str], Piece] = {}
    for lesson in lessons(root):
        for piece in pieces_of(lesson, root / "residual_edu"):
            first = found.setdefault((piece.module, piece.definition.name), piece)
            if first is not piece:
                raise Refusal(f"{piece} is promoted twice, by {first.lesson.name} and {lesson.name}.")
    return list(found.values())


def pieces_of(lesson: Path, package: Path) -> Iterator[Piece]:
    """Yield the pieces that one lesson promotes; none where it is a draft."""
    notebook = jupytext.read(lesson, fmt="py:percent")
    for cell in [] if is_draft(notebook) else notebook.cells:
        yield from pieces_in(cell, lesson, package)


def pieces_in(cell: NotebookNode, lesson: Path, package: Path) -> list[Piece]:
    """Return the pieces that one cell promotes; none for most cells."""
    found = targets(cell)
    if not found:
        return []
    place = f"{lesson.name}: the cell tagged promote:{found[0]}"
    if len(found) > 1:
        raise Refusal(f"{place} is promoted to {len(found)} modules; a cell holds pieces of one.")
    if not TARGET.fullmatch(found[0]) or not (package / found[0]).parent.is_dir():
        raise Refusal(f"{place} names no room/module of residual_edu, such as promote:parts/layer_norm.")
    if loose := loose_statement(cell.source, place):
        raise Refusal(f"{place} may hold imports, then whole classes and functions alone, not {loose.strip()!r}.")
    return [Piece(lesson, package / f"{found[0]}.py", each) for each in definitions(cell.source, place).values()]


def targets(cell: NotebookNode) -> list[str]:
    """Return where a cell's pieces are promoted to, such as ``parts/layer_norm``; none for most cells."""
    return [tag.removeprefix("promote:") for tag in tags(cell) if tag.startswith("promote:")]

"""``residual-edu promote``: a finished piece of a lesson stands, verbatim, in its module of the package.

A cell tagged ``promote:parts/layer_norm`` holds whole classes and functions; each must be, letter for letter, the
one of that name in ``residual_edu/parts/layer_norm.py``, whose docstring, imports and order stay hand-written.
``promote:config`` names the one module that stands in no room.
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

import jupytext
from nbformat import NotebookNode

from residual_edu.course.checkout import Refusal, find_root, lessons
from residual_edu.course.definitions import Definition, definitions, loose_statement
from residual_edu.course.exercise_cells import tags

TARGET = re.compile(r"[a-z][a-z0-9_]*/[a-z][a-z0-9_]*|config")


@dataclass(frozen=True)
class Piece:
    """A definition that a lesson promotes to a module, such as ``residual_edu/parts/layer_norm.py``."""

    lesson: Path
    module: Path
    definition: Definition

    def __str__(self) -> str:
        package = next(parent for parent in self.module.parents if parent.name == "residual_edu").parent
        return f"{self.definition.name} of {self.module.relative_to(package).as_posix()}"


def run(argv: Sequence[str]) -> int:
    """Carry every promoted piece into its module, or with ``--check`` show how the two differ."""
    parser = argparse.ArgumentParser(prog="residual-edu promote", description="Carry lessons' pieces into the package.")
    parser.add_argument("--check", action="store_true", help="write nothing; show how lessons and modules differ")
    check = parser.parse_args(argv).check
    every = pieces(find_root())
    drifted = [piece for piece in every if drift(piece)]
    for piece in drifted:
        print("\n".join(drift(piece)) if check else f"{piece} is now as in {piece.lesson.name}")
        if not check:
            write(piece)
    if not drifted:
        print(f"Every promoted piece ({len(every)}) stands in its module as in its lesson.")
    return int(check and bool(drifted))


def pieces(root: Path) -> list[Piece]:
    """Return every piece that the lessons promote.

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
    """Yield the pieces that one lesson promotes."""
    for cell in jupytext.read(lesson, fmt="py:percent").cells:
        for target in targets(cell):
            place = f"{lesson.name}: the cell tagged promote:{target}"
            if not TARGET.fullmatch(target) or not (package / target).parent.is_dir():
                raise Refusal(f"{place} names no room/module of residual_edu, such as promote:parts/layer_norm.")
            if loose := loose_statement(cell.source, place):
                raise Refusal(f"{place} may hold whole classes and functions alone, not {loose.strip()!r}.")
            module = package / f"{target}.py"
            yield from (Piece(lesson, module, each) for each in definitions(cell.source, place).values())


def targets(cell: NotebookNode) -> list[str]:
    """Return where a cell's pieces are promoted to, such as ``parts/layer_norm``; none for most cells."""
    return [tag.removeprefix("promote:") for tag in tags(cell) if tag.startswith("promote:")]


def standing(piece: Piece) -> Definition | None:
    """Return the definition that stands in the module under the piece's name, if there is one."""
    text = piece.module.read_text(encoding="utf-8") if piece.module.exists() else ""
    return definitions(text, str(piece.module)).get(piece.definition.name)


def drift(piece: Piece) -> list[str]:
    """Return the diff from the module's text to the lesson's; empty where they are the same."""
    has = standing(piece)
    lines = has.text.split("\n") if has else []
    wanted = piece.definition.text.split("\n")
    return list(unified_diff(lines, wanted, str(piece), f"the same in {piece.lesson.name}", n=1, lineterm=""))


def write(piece: Piece) -> None:
    """Put the piece's text in place of the module's own, or at its end; the rest of the module stays."""
    text = piece.module.read_text(encoding="utf-8").rstrip("\n") if piece.module.exists() else ""
    lines, has = text.split("\n"), standing(piece)
    if has:
        lines[has.first : has.end] = piece.definition.text.split("\n")
    else:
        lines += ["", "", piece.definition.text]
    piece.module.write_text("\n".join(lines).lstrip("\n") + "\n", encoding="utf-8", newline="\n")

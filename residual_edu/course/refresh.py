"""``residual-edu promote --refresh``: a lesson's promoted cells written anew from the modules of the package.

Each cell gets what ``stripped`` leaves of its pieces, with the comments and the layout of the module, below the imports
that they need. A cell of more than 20 lines of code is folded. Imports that the lesson uses no longer go.
"""

from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

import jupytext
from nbformat import NotebookNode, from_dict

from residual_edu.course.checkout import Refusal
from residual_edu.course.imports import needed, without_unused
from residual_edu.course.layout import laid_out
from residual_edu.course.lint.cells import VISIBLE_LINES, code_lines
from residual_edu.course.pieces import Piece, dotted, pieces_in
from residual_edu.course.stripped import stripped


@dataclass
class Change:
    """What a refresh makes of a lesson: its new text, the lines of its promoted cells, and what it would lose."""

    text: str
    lines_before: int = 0
    lines_after: int = 0
    cells: int = 0
    lost: tuple[str, ...] = ()

    def __str__(self) -> str:
        cells = "1 promoted cell" if self.cells == 1 else f"{self.cells} promoted cells"
        return f"{cells}, {self.lines_before} lines before and {self.lines_after} now"


def refresh(lesson: Path, package: Path) -> Change:
    """Return what ``lesson`` becomes with the package's code in its promoted cells.

    Raises:
        Refusal: for a piece that is in no module yet, or one that cannot be shown.
    """
    notebook = jupytext.read(lesson, fmt="py:percent")
    change = Change(lesson.read_text(encoding="utf-8"))
    promoted: dict[str, str] = {}
    for cell in notebook.cells:
        if own := pieces_in(cell, lesson, package):
            write(cell, own, promoted, change)
    if change.cells:
        notebook.cells = without_unused(notebook.cells)
        notebook.metadata["jupytext"]["cell_metadata_filter"] = "all"
        change.text = jupytext.writes(notebook, fmt="py:percent")
    return change


def write(cell: NotebookNode, pieces: list[Piece], promoted: dict[str, str], change: Change) -> None:
    """Put the package's code in place of a cell's own, and note it in ``promoted`` and ``change``."""
    before, module = cell.source, pieces[0].module
    body = "\n\n".join(stripped(text_of(piece)) for piece in pieces)
    lines = [str(each) for each in needed(body, module, promoted)]
    cell.source = laid_out("\n".join([*lines, "\n", body])).strip("\n")
    fold(cell)
    promoted |= {piece.definition.name: dotted(module) for piece in pieces}
    change.cells += 1
    change.lines_before += count(before)
    change.lines_after += count(cell.source)
    change.lost += tuple(lost(before, cell.source, module.read_text(encoding="utf-8"), dotted(module)))


def text_of(piece: Piece) -> str:
    """Return the text of a piece in its module."""
    has = piece.in_module()
    if has is None:
        name = piece.definition.name
        raise Refusal(
            f"There is no {piece}. If it is new, residual-edu promote {name} writes it there; "
            f"if it has another name now, give it that name in {piece.lesson.name} first."
        )
    return has.text


def fold(cell: NotebookNode) -> None:
    """Fold a cell of more than 20 lines of code, and open any other."""
    cell.metadata.pop("jupyter", None)
    if code_lines(cell) > VISIBLE_LINES:
        cell.metadata["jupyter"] = from_dict({"source_hidden": True})


def count(text: str) -> int:
    """Return how many lines of ``text`` are not blank."""
    return sum(bool(line.strip()) for line in text.split("\n"))


def lost(before: str, after: str, module: str, place: str) -> list[str]:
    """Return, as parts of a diff, where a cell holds lines that neither its new text nor the module does."""
    old, new = before.split("\n"), after.split("\n")
    known = {line.strip() for line in [*new, *module.split("\n")]}
    hunks: list[list[str]] = [[]]
    for line in unified_diff(old, new, "lost from the lesson", f"{place}, as the lesson shows it", n=1, lineterm=""):
        hunks += [[]] if line.startswith("@@") else []
        hunks[-1].append(line)
    head, *parts = hunks
    losing = [part for part in parts if any(line[0] == "-" and line[1:].strip() not in known for line in part)]
    return [line for part in [head, *losing] for line in part] if losing else []

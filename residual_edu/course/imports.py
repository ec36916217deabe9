"""Imports of cells: those that a promoted piece needs, and those that nothing in a lesson uses any more."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from residual_edu.course.checkout import Refusal
from residual_edu.course.definitions import bound_names, free_names, parse
from residual_edu.course.layout import COLUMNS
from residual_edu.course.pieces import dotted, targets

CODE_IN_WORDS = re.compile(r"`+[^`]+`+|<code>.*?</code>", re.S)


@dataclass(frozen=True)
class Import:
    """One name that is imported: ``from module import name as alias``, or without a module ``import name as alias``."""

    module: str
    name: str
    alias: str | None = None

    @property
    def bound(self) -> str:
        """The name that it binds."""
        return self.alias or (self.name if self.module else self.name.partition(".")[0])

    def __str__(self) -> str:
        words = f"{self.name} as {self.alias}" if self.alias else self.name
        return f"from {self.module} import {words}" if self.module else f"import {words}"


def imports_in(statements: Iterable[ast.stmt]) -> Iterator[Import]:
    """Yield what ``statements`` import, where they are no definition."""
    for statement in statements:
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
            for node in ast.walk(statement):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    module = getattr(node, "module", None) or ""
                    yield from (Import(module, each.name, each.asname) for each in node.names)


def needed(text: str, module: Path, promoted: Mapping[str, str]) -> list[Import]:
    """Return what ``text``, definitions of ``module``, needs to be imported.

    A name comes from where the module imports it, or else from the module itself.

    Args:
        text: the definitions, as a lesson shows them.
        module: the file that they stand in.
        promoted: what earlier cells of the lesson define, which is not imported: names, and the modules of each.

    Raises:
        Refusal: for a name that the module does not bind.
    """
    whole = module.read_text(encoding="utf-8")
    names = sorted(free_names(text))
    if missing := [name for name in names if name not in bound_names(whole)]:
        raise Refusal(f"{dotted(module)} reads {', '.join(missing)} and binds no such name.")
    known = list(imports_in(parse(whole, str(module))))
    found = [each for name in names for each in providing(name, known, text) or [Import(dotted(module), name)]]
    return [each for each in found if each.alias or not comes_from(each.module, promoted.get(each.name))]


def providing(name: str, known: Sequence[Import], text: str) -> list[Import]:
    """Return what binds ``name``: of ``import a``, ``import a.b`` and ``import a.c`` those that are used."""
    binding = [each for each in known if each.bound == name]
    inner = [each for each in binding if "." in each.name and not each.alias]
    used = [each for each in inner if f"{each.name}." in text]
    return used or [each for each in binding if each not in inner][-1:] or binding[-1:]


def comes_from(module: str, promoted: str | None) -> bool:
    """Whether what is imported from ``module`` is the piece promoted to a module, which a room may hand on."""
    return promoted is not None and (promoted == module or promoted.startswith(f"{module}."))


def without_unused(cells: Sequence[NotebookNode]) -> list[NotebookNode]:
    """Return a lesson's cells without the imports that none of them uses; a cell of nothing else goes.

    Promoted cells are left as they are, and what they use does not count, since they import it. A name that prose
    mentions as code is kept, for a learner who tries it; a check is not.
    """
    used, kept = used_names(cells), []
    for cell in cells:
        before = cell.source
        if cell.cell_type == "code" and not targets(cell):
            cell.source = without(before, used)
        if cell.source == before or ast.parse(cell.source).body:
            kept.append(cell)
    return kept


def used_names(cells: Sequence[NotebookNode]) -> set[str]:
    """Return the names that a lesson's own code uses, and those that its prose mentions as code."""
    code = [ast.parse(cell.source) for cell in cells if cell.cell_type == "code" and not targets(cell)]
    prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    words = set(re.findall(r"\w+", " ".join(CODE_IN_WORDS.findall(prose))))
    read = {node.id for tree in code for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return read | {word for word in words if not word.startswith("check_")}


def without(source: str, used: set[str]) -> str:
    """Return a cell's source without the imports of names that are not ``used``; lines that are too long are cut."""
    lines = source.split("\n")
    for group in reversed(import_groups(ast.parse(source).body)):
        first, end = group[0].lineno - 1, group[-1].end_lineno or group[-1].lineno
        every = list(imports_in(group))
        kept = [each for each in every if each.bound in used]
        if kept != every or any(len(line) > COLUMNS for line in lines[first:end]):
            comment = lines[end - 1].encode()[group[-1].end_col_offset :].decode().strip()
            lines[first:end] = [comment] * bool(comment and kept) + list(statements(kept))
            if not kept and lines[first : first + 1] == [""] == (lines[first - 1 : first] or [""]):
                del lines[first]
    return "\n".join(lines).strip("\n")


def import_groups(body: Iterable[ast.stmt]) -> list[list[ast.stmt]]:
    """Return the imports among statements, those that follow each other and take from one module together."""
    found: list[list[ast.stmt]] = []
    for node in body:
        last = found[-1][-1] if found else None
        if isinstance(node, ast.ImportFrom) and isinstance(last, ast.ImportFrom):
            together = last.module == node.module and last.end_lineno == node.lineno - 1
            found[-1:] = [[*found[-1], node]] if together else [found[-1], [node]]
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.append([node])
    return found


def statements(kept: list[Import]) -> Iterator[str]:
    """Yield statements of one line that import names of one module, as many in each as fit."""
    line = ""
    for each in kept:
        name = str(each).partition("import ")[2]
        if line and each.module and len(f"{line}, {name}") <= COLUMNS:
            line = f"{line}, {name}"
        else:
            yield from [line] if line else []
            line = str(each)
    yield from [line] if line else []

"""The examples of ``docs/examples``: a file for each thing that one looks for, and in it the pieces that do it.

A piece is headed by its name as it is imported: from ``residual_edu``, or by its module (``parts.mlp.swiglu``); names
that follow it are other names of the same class. Below it stand its import, at most five lines and what they print.
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import NamedTuple

FOLDER = "docs/examples"
GROUPS = "norms gates residual blocks mixers attention convolutions positions feed_forward networks measuring building"
PIECE = re.compile(r"^## ([^\n]+)\n\n```pycon\n(.*?)^```", re.M | re.S)


class Piece(NamedTuple):
    """A piece of the library: its module and name, its other names, and the example."""

    module: str
    name: str
    others: list[str]
    example: str

    @property
    def path(self) -> str:
        """The name by which Sphinx knows the piece."""
        return f"residual_edu.{self.module}.{self.name}"

    @property
    def directive(self) -> str:
        """What documents a piece of its kind."""
        found = resolve_name(self.path)
        return "autoclass" if inspect.isclass(found) else "autofunction" if inspect.isroutine(found) else "py:data"

    @property
    def about(self) -> str:
        """The first line of its docstring, in Markdown; of a name for a value nothing."""
        text = "" if self.directive == "py:data" else (inspect.getdoc(resolve_name(self.path)) or "").split("\n")[0]
        return re.sub(r":math:`(.+?)`", r"$\1$", text).replace("``", "`")


class Group(NamedTuple):
    """Pieces that one looks for together: the name of their page, and what it holds."""

    name: str
    title: str
    about: str
    pieces: list[Piece]


def groups(root: Path) -> Iterator[Group]:
    """Yield the groups of the checkout ``root`` in the order of the reference."""
    for name in GROUPS.split():
        text = (root / FOLDER / f"{name}.md").read_text(encoding="utf-8")
        title, about, _ = text.split("\n\n", 2)
        yield Group(name, title.removeprefix("# "), about, [piece(*found) for found in PIECE.findall(text)])


def piece(heading: str, example: str) -> Piece:
    """Return a piece, in the module that defines it."""
    first, *others = heading.split(", ")
    module, _, name = first.rpartition(".")
    module = module or resolve_name(f"residual_edu.{name}").__module__.removeprefix("residual_edu.")
    return Piece(module, name, others, example)

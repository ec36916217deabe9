"""The library's reference: a page for each thing that one looks for, of its pieces' docstrings and examples."""

import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path

from residual_course.commands.checkout import lessons, notebook_of
from residual_course.commands.notebook import read_notebook
from tools.book.examples import Group, Piece, groups
from tools.promote import PROMOTE, targets

MODULE = """\
## {module}
{built}
```{{eval-rst}}
.. automodule:: residual_edu.{module}

{entries}
```
"""
ENTRY = """\
.. {piece.directive}:: {piece.path}
{options}
   .. code-block:: pycon

{example}
"""
MEMBERS = "   :members:\n   :show-inheritance:\n"
INDEX = """\
# The library

Every piece that the lessons build, as it is imported: `from residual_edu import LayerNorm`. Each has an example of a
few lines and a link to its source. Shapes stand in the signatures, as in `Float[Tensor, "*batch channels"]`: any number
of batch axes, then one of channels.

{}
```{{toctree}}
:hidden:

{}
```
"""
Built = Mapping[str, list[str]]


def write_reference(root: Path, out: Path, built: Built) -> None:
    """Write a page for each group of pieces into the new folder ``out``, and an index."""
    out.mkdir()
    found = list(groups(root))
    for group in found:
        text = "\n".join([contents(group, "#"), *modules(group, built)])
        (out / f"{group.name}.md").write_text(text, encoding="utf-8")
    names = "\n".join(group.name for group in found)
    text = INDEX.format("\n".join(contents(group, "##") for group in found), names)
    (out / "index.md").write_text(text, encoding="utf-8")


def contents(group: Group, level: str) -> str:
    """Return the title of a group, and its pieces in a line each."""
    lines = [": ".join(filter(None, [link(piece), piece.about])) for piece in group.pieces]
    return "\n".join([f"{level} {group.title}", "", group.about, "", *(f"- {line}" for line in lines), ""])


def link(piece: Piece) -> str:
    """Return a link to a piece, with its other names."""
    return ", ".join([f"{{py:obj}}`{piece.name} <{piece.path}>`", *piece.others])


def modules(group: Group, built: Built) -> Iterator[str]:
    """Yield a section for each module of a group: the lessons that build it, its docstring, its pieces."""
    order = [piece.module for piece in group.pieces]
    together = sorted(group.pieces, key=lambda piece: order.index(piece.module))
    for module, pieces in groupby(together, lambda piece: piece.module):
        links = f"\nBuilt in {' and '.join(built[module])}.\n" if module in built else ""
        yield MODULE.format(module=module, built=links, entries="\n".join(map(entry, pieces)))


def entry(piece: Piece) -> str:
    """Return what documents a piece, and shows its example below its text."""
    options = MEMBERS if piece.directive == "autoclass" else ""
    return ENTRY.format(piece=piece, options=options, example=textwrap.indent(piece.example, " " * 6))


def built_in(root: Path) -> Built:
    """Return links to the lessons that promote a piece to a module, such as ``parts.layer_norm``."""
    found = defaultdict[str, list[str]](list)
    for source in lessons(root):
        notebook = read_notebook(notebook_of(source))
        title = notebook.cells[0].source.partition("\n")[0].lstrip("# ")
        for module in dict.fromkeys(target for cell in notebook.cells for target in targets(cell, PROMOTE)):
            found[module.replace("/", ".")].append(f"[{title}](../notebooks/{notebook_of(source).name})")
    return found

"""The library's reference: a page for each module, of its docstrings, with a link to the lesson that builds it."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from residual_course.commands.checkout import lessons, notebook_of
from residual_course.commands.notebook import read_notebook
from tools.promote import PROMOTE, targets

ROOMS = {
    "config": "Describe a module now, build it later",
    "parts": "What stands on, around and after a layer",
    "mixers": "What lets positions exchange information",
    "blocks": "The blocks",
    "configurable": "The block of names and numbers",
    "networks": "Whole networks",
    "gradient_flow": "Measuring gradient flow",
    "errors": "The error of this library",
}
GIVES = re.compile(r"^from residual_edu\.(\w+\.\w+) import", re.M)
PAGE = """\
# {name}

{built}

```{{eval-rst}}
.. automodule:: residual_edu.{name}
   :members:
   :show-inheritance:
   :member-order: bysource
```
"""
CONTENTS = "\n```{{toctree}}\n:hidden:\n\n{}\n```\n"
INDEX = """\
# The library

Every piece that the lessons build, as it is imported: `from residual_edu import LayerNorm`. Shapes stand in the
signatures, as in `Float[Tensor, "*batch channels"]`: any number of batch axes, then one of channels.

"""


def write_reference(root: Path, out: Path) -> None:
    """Write a page for each module into the new folder ``out``, and an index."""
    out.mkdir()
    built, index, names = built_in(root), [INDEX], list[str]()
    for room, what in ROOMS.items():
        index.append(f"\n## {what}\n\n")
        for name, text in modules(root / "residual_edu", room, built):
            page = PAGE.format(name=name, built=lesson_links(built.get(name.replace(".", "/"), ())))
            (out / f"{name}.md").write_text(page, encoding="utf-8")
            index.append(f"- [{name}]({name}.md): {text}\n")
            names.append(name)
    index.append(CONTENTS.format("\n".join(names)))
    (out / "index.md").write_text("".join(index), encoding="utf-8")


def modules(package: Path, room: str, built: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield name and first line of each module from which a room gives a name, or a lesson shows one."""
    single, whole = package / f"{room}.py", package / room / "__init__.py"
    given = {room} if single.exists() else set(GIVES.findall(whole.read_text(encoding="utf-8")))
    given |= {name.replace("/", ".") for name in built if name.startswith(f"{room}/")}
    for name in sorted(given):
        path = package / f"{name.replace('.', '/')}.py"
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        yield name, text.partition("\n")[0].replace("``", "`")


def built_in(root: Path) -> dict[str, list[tuple[str, str]]]:
    """Return file name and title of the lessons that promote a piece to a module, such as ``parts/layer_norm``."""
    found = defaultdict[str, list[tuple[str, str]]](list)
    for source in lessons(root):
        notebook = read_notebook(notebook_of(source))
        title = notebook.cells[0].source.partition("\n")[0].lstrip("# ")
        for module in dict.fromkeys(target for cell in notebook.cells for target in targets(cell, PROMOTE)):
            found[module].append((notebook_of(source).name, title))
    return found


def lesson_links(found: Sequence[tuple[str, str]]) -> str:
    """Return the sentence that says which lesson shows the code."""
    links = " and ".join(f"[{title}](../notebooks/{name})" for name, title in found)
    return f"Built in {links}." if links else ""

"""``residual-edu export``: a lesson as one page of Markdown with its pictures beside it, as a reader meets it.

Folded code is kept to its first line; what is stored apart is joined. For whoever reads a lesson without Jupyter: blind
readers, a colleague, and ``lint``, which counts its words.
"""

import argparse
import base64
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from nbformat import NotebookNode

from residual_course.commands.answers import answers_of, join
from residual_course.commands.checkout import Refusal, find_root, notebook_of, with_homework
from residual_course.commands.notebook import read_notebook

INLINE = re.compile(r"data:image/[a-z]+;base64,[A-Za-z0-9+/=]+")
PAGE = "lesson.md"


def run(argv: Sequence[str]) -> int:
    """Write the page of the lesson named in ``argv``."""
    parser = argparse.ArgumentParser(prog="residual-edu export", description="Write a lesson as a page of Markdown.")
    parser.add_argument("lesson", metavar="LESSON", help="02, or a path to its notebook")
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder for the page and its pictures")
    given = parser.parse_args(argv)
    notebook = notebook_of(with_homework(find_root(), [given.lesson])[0])
    if not notebook.exists():
        raise Refusal(f"There is no {notebook}; make it first: residual-edu build {notebook.stem}")
    pictures: list[bytes] = []
    text = page(built(notebook), pictures)
    given.out.mkdir(parents=True, exist_ok=True)
    for number, picture in enumerate(pictures, 1):
        (given.out / name(number)).write_bytes(picture)
    (given.out / PAGE).write_text(text, encoding="utf-8", newline="\n")
    print(f"{given.out / PAGE}: {len(text.split())} words, {len(pictures)} pictures")
    return 0


def built(path: Path) -> NotebookNode:
    """Return a built notebook with what is stored apart."""
    notebook = read_notebook(path)
    join(notebook, answers_of(path))
    return notebook


def page(notebook: NotebookNode, pictures: list[bytes]) -> str:
    """Return a notebook as Markdown, and add its pictures to ``pictures``."""
    parts = (part for cell in notebook.cells for part in parts_of(cell, pictures))
    return "\n\n".join(part for part in parts if part.strip()) + "\n"


def parts_of(cell: NotebookNode, pictures: list[bytes]) -> Iterator[str]:
    """Yield a cell's text, or its code and what it shows."""
    if cell.cell_type != "code":
        yield INLINE.sub("(picture)", cell.source)
        return
    lines = cell.source.splitlines() or [""]
    folded = cell.metadata.get("jupyter", {}).get("source_hidden")
    yield f"[folded code, {len(lines)} lines: `{lines[0]}` ...]" if folded else f"```python\n{cell.source}\n```"
    for output in cell.outputs:
        yield shown(output, pictures)


def shown(output: NotebookNode, pictures: list[bytes]) -> str:
    """Return an output as Markdown."""
    data = output.get("data", {})
    if "image/png" in data:
        pictures.append(base64.b64decode(data["image/png"]))
        return f"![picture]({name(len(pictures))})"
    if "text/markdown" in data:
        return data["text/markdown"]
    text = output.get("text") or data.get("text/plain") or "\n".join(output.get("traceback", []))
    return f"```\n{text.rstrip()}\n```"


def name(number: int) -> str:
    """Return the name of a picture's file."""
    return f"picture_{number:02d}.png"

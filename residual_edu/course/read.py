"""``residual-edu read``: a lesson as pages, as a learner meets them, for somebody who is to read it cold.

A page ends at each prediction; what running the reveal displays begins the next one. Pictures are files beside the
pages. Solutions and folded code stand in files of their own, named where a learner could open them.
"""

import argparse
import base64
from collections.abc import Iterator, Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from residual_edu.course.answers import answers_of, join
from residual_edu.course.checkout import Refusal, find_root, notebook_of, with_homework
from residual_edu.course.execute import plain
from residual_edu.course.exercise_cells import NOTE, tags

STOP = "[Answer the question in writing, with your reason. Only then open the next page.]"
END = "[The end.]"


def run(argv: Sequence[str]) -> int:
    """Write the pages of one lesson into an empty folder and print their names."""
    parser = argparse.ArgumentParser(prog="residual-edu read", description="Write a lesson as pages for a reader.")
    parser.add_argument("lesson", metavar="LESSON", help="02, or hw_00_01")
    parser.add_argument("out", type=Path, metavar="OUT", help="a new or empty folder")
    given = parser.parse_args(argv)
    sources = with_homework(find_root(), [given.lesson])
    if len(sources) != 1:
        raise Refusal(f"{given.lesson!r} begins {len(sources)} lessons; name one.")
    if given.out.exists() and (not given.out.is_dir() or any(given.out.iterdir())):
        raise Refusal(f"{given.out} is not an empty folder.")
    notebook = notebook_of(sources[0])
    if not notebook.exists():
        raise Refusal(f"{notebook.name} is not built; run: residual-edu build {sources[0].stem}")
    lesson = nbformat.read(notebook, as_version=4)
    join(lesson, answers_of(notebook))
    print(*Pages(given.out).write(lesson), sep="\n")
    return 0


class Pages:
    """The files of one lesson in ``out``; pictures and what is folded are numbered as they come."""

    def __init__(self, out: Path) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self.out, self.pictures, self.asides = out, 0, 0

    def write(self, notebook: NotebookNode) -> list[Path]:
        """Write every page, and return them in order."""
        pages, page = list[Path](), list[str]()
        for cell in notebook.cells:
            page += self.met(cell)
            if "predict" in tags(cell):
                pages.append(self.close(len(pages) + 1, [*page, STOP]))
                page = []
        return [*pages, self.close(len(pages) + 1, [*page, END])]

    def close(self, number: int, page: list[str]) -> Path:
        """Write one page."""
        path = self.out / f"page_{number:02d}.md"
        path.write_text("\n\n".join(page) + "\n", encoding="utf-8")
        return path

    def met(self, cell: NotebookNode) -> Iterator[str]:
        """Yield what a learner meets in a cell, as Markdown."""
        if cell.cell_type != "code":
            yield from [cell.source] if cell.source != NOTE else []
        elif "solution" in tags(cell):
            yield f"[folded solution, open it only when you would: {self.aside('solution', cell)}]"
        elif "reveal" in tags(cell):
            shown = "\n\n".join(map(self.shown, cell.outputs))
            yield f"[you run the folded cell (its code: {self.aside('code', cell)}); it displays:]\n\n{shown}"
        else:
            hidden = cell.metadata.get("jupyter", {}).get("source_hidden")
            yield f"[folded code: {self.aside('code', cell)}]" if hidden else f"```python\n{cell.source}\n```"
            yield from map(self.shown, cell.outputs)

    def aside(self, kind: str, cell: NotebookNode) -> str:
        """Write a folded cell into a file of its own, a solution with what it prints, and return its name."""
        self.asides += 1
        path = self.out / f"{kind}_{self.asides:02d}.md"
        outputs = map(self.shown, cell.outputs) if kind == "solution" else ()
        path.write_text("\n\n".join([f"```python\n{cell.source}\n```", *outputs]) + "\n", encoding="utf-8")
        return path.name

    def shown(self, output: NotebookNode) -> str:
        """Return one output as Markdown; a picture becomes a file."""
        data = output.get("data", {})
        if "image/png" in data:
            self.pictures += 1
            path = self.out / f"picture_{self.pictures:02d}.png"
            path.write_bytes(base64.b64decode(data["image/png"]))
            return f"[picture: {path.name}; alternative text: {output.metadata['image/png']['alt']}]"
        if "text/markdown" in data:
            return data["text/markdown"]
        text = output.get("text") or "\n".join(output.get("traceback", [])) or data.get("text/plain", "")
        return f"```\n{plain(text).rstrip()}\n```"

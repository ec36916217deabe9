"""Rules for the way into a lesson and on from it, which take the place of its source as well; and for its links."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

from residual_course.commands.checkout import course_of, notebook_of, with_homework
from residual_course.contents import LESSON, headings
from tools.lint.cells import called, code_cells, prose, tree

LINK = re.compile(r"\]\(<?(?![a-z]+:)([^)#>\s]*)(#[^)>]*)?>?\)")  # to a file of ours, or a heading
CODE = re.compile(r"<code>.*?</code>|(`+).*?\1", re.S)
GLOSSARY = "../docs/glossary.md"


def number(path: Path) -> str:
    """Return the number of the lesson whose source stands at ``path``; of what is no lesson, nothing."""
    match = LESSON.fullmatch(path.stem)
    return match[1] if match else ""


def begins_and_ends_with_links(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """The first text links to the lesson before; the last links to the next one, the homework and the glossary."""
    if number(path):
        texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"] or [""]
        yield from (f"the first cell of text does not link to {name}" for name in lacking(texts[0], before(path)))
        on = [*after(path), *homework(path), GLOSSARY]
        yield from (f"the last cell of text does not link to {name}" for name in lacking(texts[-1], on))


def lacking(text: str, names: list[str]) -> list[str]:
    """Return those of ``names`` that ``text`` has no link to."""
    return [name for name in names if name not in {target for target, _ in LINK.findall(text)}]


def lessons(path: Path) -> list[str]:
    """Return the names of the lessons' sources beside ``path``, in order."""
    return sorted(each.stem for each in path.parent.glob("*.py") if number(each))


def before(path: Path) -> list[str]:
    """Return the notebook of the lesson before; of the first, nothing."""
    names = lessons(path)
    return [f"{name}.ipynb" for name in names[: names.index(path.stem)][-1:]]


def after(path: Path) -> list[str]:
    """Return the notebook of the next lesson; of the last, nothing."""
    names = lessons(path)
    return [f"{name}.ipynb" for name in names[names.index(path.stem) + 1 :][:1]]


def homework(path: Path) -> list[str]:
    """Return the notebooks of the homework about the lesson."""
    found = sorted(each.stem for each in path.parent.glob("homework/hw_*.py") if number(path) in each.stem.split("_"))
    return [f"homework/{name}.ipynb" for name in found]


def begins_with_progress_and_ends_with_summary(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """The first code cell calls progress, the last is summary alone, both with the lesson's own number."""
    trees = [tree(cell) for _, cell in code_cells(notebook)] or [ast.parse("")]
    if number(path):
        if number(path) not in numbers(trees[0], "progress"):
            yield f'the first code cell does not call progress("{number(path)}")'
        if number(path) not in numbers(trees[-1], "summary") or len(trees[-1].body) > 1:
            yield f'the last code cell is not summary("{number(path)}")'


def numbers(code: ast.Module, name: str) -> list[object]:
    """Return what the statements of a cell hand to the function ``name``."""
    calls = [node.value for node in code.body if isinstance(node, ast.Expr) and called(node.value) == name]
    return [getattr(argument, "value", None) for call in calls for argument in getattr(call, "args", [])]


def links_lead_somewhere(notebook: NotebookNode, path: Path) -> Iterator[str]:
    """A link to a file works beside the course's notebooks and beside a learner's copies; one to a heading finds it."""
    text = CODE.sub("", prose(notebook))
    there = {heading.replace(" ", "-") for _, heading in headings(text)}
    for target, heading in LINK.findall(text):
        if target and not is_there(target, path):
            yield f"the link to {target} leads nowhere"
        if not target and heading[1:] not in there:
            yield f"the link to {heading} leads to no heading"


def is_there(target: str, path: Path) -> bool:
    """Whether a link from a lesson leads to what is built, or to a file beside the folder of all notebooks."""
    root, place = course_of(path).resolve(), (notebook_of(path).parent / target).resolve()
    if place.suffix == ".ipynb":
        return place in map(notebook_of, with_homework(root))
    return place.exists() and root / "notebooks" not in place.parents


FOR_A_LESSON = [begins_and_ends_with_links, begins_with_progress_and_ends_with_summary]

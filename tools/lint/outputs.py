"""Rules for the stored outputs of a built notebook."""

import re
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

from residual_course.commands.answers import apart
from tools.lint.cells import code_cells

PATH = re.compile(r"""(?:^|(?<=[\s"'(=]))(?:/[\w.-]+/[\w.-]+|[A-Za-z]:\\\w)""", re.M)
DEVICE = re.compile(r"\b(?:cuda|mps|cpu)\b")


def stored(notebook: NotebookNode) -> Iterator[tuple[str, NotebookNode]]:
    """Yield each stored output with the words that name its cell."""
    for place, cell in code_cells(notebook):
        yield from ((place, output) for output in cell.outputs)


def nothing_is_stored(notebook: NotebookNode) -> Iterator[str]:
    """No answer to a prediction or an exercise is stored where a learner opens it; before the answers are joined."""
    answers = {id(cell) for cell in apart(notebook)}
    for place, cell in code_cells(notebook):
        if id(cell) in answers and cell.outputs:
            yield f"{place} stores its answer in the notebook"


def pictures_have_words(notebook: NotebookNode, source: Path) -> Iterator[str]:
    """Every stored picture carries alternative text."""
    for place, output in stored(notebook):
        for kind in output.get("data", {}):
            if kind.startswith("image/") and not output.metadata.get(kind, {}).get("alt", "").strip():
                yield f"{place} stores a picture without alternative text; use show(figure)"


def no_machine_in_outputs(notebook: NotebookNode, source: Path) -> Iterator[str]:
    """No output names a path or a device of the machine that built it."""
    for place, output in stored(notebook):
        for found in (pattern.search(words(output)) for pattern in (PATH, DEVICE)):
            if found:
                yield f"{place} names this machine in its output: {found[0]}"


def words(output: NotebookNode) -> str:
    """Return everything that an output says in text."""
    data = output.get("data", {})
    said = [output.get("text", ""), *(data[kind] for kind in data if kind.startswith("text/"))]
    return "\n".join([*said, *output.get("traceback", [])])


RULES = [pictures_have_words, no_machine_in_outputs]

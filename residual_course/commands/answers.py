"""What learners do not see before they ask for it: the outputs of predictions and solutions, stored apart.

``notebooks/02_layer_norm.ipynb`` holds no output of these cells; ``notebooks/answers/02_layer_norm.json`` does, by cell
id. nbval and the book read the two joined, so that every output is compared and shown.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nbformat import NotebookNode, from_dict

from residual_course.commands.exercise_cells import tags
from residual_course.contents import predicts


def apart(notebook: NotebookNode) -> Iterator[NotebookNode]:
    """Yield the code cells whose outputs are stored apart."""
    for cell in notebook.cells:
        if cell.cell_type == "code" and ("solution" in tags(cell) or predicts(cell.source)):
            yield cell


def answers_of(notebook: Path) -> Path:
    """Return where the outputs of a built notebook's predictions and solutions are stored."""
    top = next((folder for folder in notebook.parents if folder.name == "notebooks"), notebook.parent)
    return top / "answers" / notebook.relative_to(top).with_suffix(".json")


def store(notebook: NotebookNode, answers: Path) -> None:
    """Take the outputs and execution counts of predictions and solutions out of ``notebook``, outputs to the file."""
    outputs = {cell.id: cell.outputs for cell in apart(notebook)}
    for cell in apart(notebook):
        cell.outputs, cell.execution_count = [], None
    answers.unlink(missing_ok=True)
    if outputs:
        answers.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(outputs, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
        answers.write_text(text, encoding="utf-8", newline="\n")


def join(notebook: NotebookNode, answers: Path) -> None:
    """Put the outputs that are stored in the file ``answers`` back into ``notebook``; without a file, none."""
    stored = load(answers)
    for cell in apart(notebook):
        cell.outputs = [from_dict(output) for output in stored.get(cell.get("id"), [])]


def missing(notebook: NotebookNode, answers: Path) -> bool:
    """Whether the file ``answers`` holds outputs of other cells than the predictions and solutions of ``notebook``."""
    return load(answers).keys() != {cell.id for cell in apart(notebook)}


def load(answers: Path) -> dict[str, list[Any]]:
    """Return the outputs in the file ``answers`` by cell id; none without a file."""
    return json.loads(answers.read_text(encoding="utf-8")) if answers.exists() else {}

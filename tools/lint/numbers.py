"""The form's numbers: what a first reader can take, not what is to be filled."""

import re
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode

from residual_course.commands.exercise_cells import tags
from residual_course.contents import predicts
from tools.export import page
from tools.lint.cells import code_cells, code_lines, prose
from tools.promote import PROMOTE, targets


class Most(NamedTuple):
    """What a lesson has at most."""

    minutes: int = 60
    words: int = 4000
    visible: int = 170
    hidden: int = 120


LARGE = dict.fromkeys(("07b", "08a", "08b", "08c", "09", "10"), Most(75, 5500, 220, 160))
PREDICTIONS, EXERCISES, BOLD, LINES, WHOLE = 3, (2, 3), 7, 20, 25
WORDS_A_MINUTE = 90
EXERCISE = re.compile(r"^#+ .*\bExercise \d+\b.*$", re.M)
MINUTES = re.compile(r"\((\d+) minutes?\)$")
TERM = re.compile(r"\*\*([^*\n]+[^*\n.])\*\*")


def numbers_are_in_range(notebook: NotebookNode, source: Path) -> Iterator[str]:
    """A lesson has no more minutes, words, lines, predictions, exercises and terms than the form allows."""
    most = LARGE.get(source.stem.partition("_")[0], Most())
    words, text = len(page(notebook, []).split()), prose(notebook)
    tasks = EXERCISE.findall(text)
    stated = [int(minutes[1]) for minutes in map(MINUTES.search, tasks) if minutes]
    counted = {
        "minutes": (ceil(words / WORDS_A_MINUTE + sum(stated)), most.minutes),
        "words": (words, most.words),
        "visible lines of code": (sum(code_lines(cell) for cell in visible(notebook)), most.visible),
        "hidden lines of code": (sum(code_lines(cell) for cell in hidden(notebook)), most.hidden),
        "predictions": (sum(bool(predicts(cell.source)) for _, cell in code_cells(notebook)), PREDICTIONS),
        "exercises": (len(tasks), EXERCISES[1]),
        "bold terms": (len({term.lower() for term in TERM.findall(text)}), BOLD),
    }
    yield from (f"the lesson has {got} {what}, more than {top}" for what, (got, top) in counted.items() if got > top)
    if len(tasks) < EXERCISES[0]:
        yield f"the lesson has {len(tasks)} exercises, fewer than {EXERCISES[0]}"
    if len(stated) < len(tasks):
        yield f"{len(tasks) - len(stated)} exercises do not say their minutes at the end of their heading"


def short_cells(notebook: NotebookNode, source: Path) -> Iterator[str]:
    """An open cell has at most 20 lines of code, 25 where a finished piece stands whole."""
    for place, cell in code_cells(notebook):
        limit = WHOLE if targets(cell, PROMOTE) else LINES
        if not is_folded(cell) and "solution" not in tags(cell) and code_lines(cell) > limit:
            yield f"{place} has {code_lines(cell)} lines of code, more than {limit}"


def visible(notebook: NotebookNode) -> Iterator[NotebookNode]:
    """Yield the open cells of code, without predictions and checks."""
    for _, cell in code_cells(notebook):
        is_check = cell.metadata.get("nbgrader", {}).get("grade")
        if not (is_folded(cell) or predicts(cell.source) or is_check):
            yield cell


def hidden(notebook: NotebookNode) -> Iterator[NotebookNode]:
    """Yield the folded cells of code, without solutions and what the package has word for word."""
    for _, cell in code_cells(notebook):
        if is_folded(cell) and "solution" not in tags(cell) and not targets(cell, PROMOTE):
            yield cell


def is_folded(cell: NotebookNode) -> bool:
    """Whether a cell's code is closed until a reader opens it."""
    return bool(cell.metadata.get("jupyter", {}).get("source_hidden"))


RULES = [numbers_are_in_range, short_cells]

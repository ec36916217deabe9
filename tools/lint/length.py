"""Rules for the length of a lesson: its minutes are computed from all that a learner meets, and its cells are short."""

import ast
import math
import re
from collections.abc import Iterator

from nbformat import NotebookNode

from residual_course.commands.exercise_cells import NOTE, tags
from tools.lint.cells import VISIBLE_LINES, code_cells, code_lines, is_folded
from tools.lint.outputs import words
from tools.lint.predictions import questions, reveals
from tools.promote import targets

COLUMNS, MINUTES, LAWS = 88, 90, 5
WORDS_A_MINUTE, LINES_A_MINUTE = 150, 8
A_PREDICTION, A_FIGURE, AN_EXPLORER = 1, 0.5, 5
TAG = re.compile(r"</?[a-z][^<>]*>")  # a formula's less-than is none
STATED = re.compile(r"\b(\d+) minutes?\b")
EXERCISE = re.compile(r"^#+ Exercise.*?(\d+) minutes?", re.M)
LAW = re.compile(r"^\|(?![\s:|-]+\|$).*\|$", re.M)


def minutes(notebook: NotebookNode) -> int:
    """Return how many minutes a built lesson takes, rounded up to 5: reading, code, questions, pictures, exercises."""
    code = [cell for _, cell in code_cells(notebook)]
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown" and cell.source != NOTE)
    read = len(TAG.sub(" ", text).split()) + sum(said(cell) for cell in code if "solution" not in tags(cell))
    lines = sum(code_lines(cell) for cell in code if not (is_folded(cell) or targets(cell)))
    pictures = sum("image/png" in output.get("data", {}) for cell in code for output in cell.outputs)
    explorers = sum("explorer" in tags(cell) for cell in code)
    total = read / WORDS_A_MINUTE + lines / LINES_A_MINUTE + A_PREDICTION * sum(len(questions(cell)) for cell in code)
    total += A_FIGURE * (pictures - explorers) + AN_EXPLORER * explorers + sum(map(int, EXERCISE.findall(text)))
    return 5 * math.ceil(total / 5)


def said(cell: NotebookNode) -> int:
    """Return how many words a cell's outputs have; of a reveal, with its longest reason."""
    printed = [output for output in cell.outputs if "image/png" not in output.get("data", {})]
    reasons = [len(text.split()) for text in texts(cell)]
    return sum(len(words(output).split()) for output in printed) + max(reasons, default=0)


def texts(cell: NotebookNode) -> Iterator[str]:
    """Yield the reasons that a cell's reveals may give."""
    for call in reveals(cell).values():
        why = next((keyword.value for keyword in call.keywords if keyword.arg == "why"), None)
        for node in ast.walk(why) if why else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def minutes_are_enough(notebook: NotebookNode) -> Iterator[str]:
    """The lesson states no fewer minutes than are computed."""
    if (stated := stated_minutes(notebook)) < (needed := minutes(notebook)):
        yield f"the lesson states {stated} minutes, and takes {needed}"


def minutes_are_not_too_many(notebook: NotebookNode) -> Iterator[str]:
    """The lesson states no more minutes than are computed; an exercise's own are then what a reader took."""
    if (stated := stated_minutes(notebook)) > (needed := minutes(notebook)):
        yield f"the lesson states {stated} minutes, and takes {needed}"


def stated_minutes(notebook: NotebookNode) -> int:
    """Return the minutes that a lesson states in its first three cells; those that it takes, where it states none."""
    stated = STATED.search("\n".join(cell.source for cell in notebook.cells[:3]))
    return int(stated[1]) if stated else minutes(notebook)


def a_lab_is_enough(notebook: NotebookNode) -> Iterator[str]:
    """A lesson takes at most 90 minutes."""
    if (needed := minutes(notebook)) > MINUTES:
        yield f"the lesson takes {needed} minutes, more than {MINUTES}"


def few_laws(notebook: NotebookNode) -> Iterator[str]:
    """The closing table has at most five laws."""
    rows = LAW.findall("\n".join(cell.source for cell in notebook.cells[-3:] if cell.cell_type == "markdown"))
    if len(rows) - 1 > LAWS:  # the first names the columns
        yield f"the closing table has {len(rows) - 1} laws, more than {LAWS}"


def visible_code_is_short(notebook: NotebookNode) -> Iterator[str]:
    """A cell whose code is not folded has at most 20 lines of code."""
    for place, cell in code_cells(notebook):
        if not (is_folded(cell) or targets(cell)) and "reveal" not in tags(cell) and code_lines(cell) > VISIBLE_LINES:
            yield f"{place} shows {code_lines(cell)} lines of code, more than {VISIBLE_LINES}; fold it or cut it"


def narrow_lines(notebook: NotebookNode) -> Iterator[str]:
    """A line of code has at most 88 columns, what a JupyterLab shows beside its list of files."""
    for place, cell in code_cells(notebook):
        longest = max(map(len, cell.source.split("\n")))
        if longest > COLUMNS:
            yield f"{place} has a line of {longest} columns, more than {COLUMNS}"


SOURCE_RULES = [few_laws, narrow_lines]
OUTPUT_RULES = [minutes_are_enough, minutes_are_not_too_many, a_lab_is_enough, visible_code_is_short]
FOR_A_WHOLE_LESSON = [few_laws, minutes_are_enough, minutes_are_not_too_many, a_lab_is_enough]

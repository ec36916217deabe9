"""A stored notebook as the book has it: the same cells, with folds, questions and explorers that work in a page."""

import html
import re
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from residual_course.commands.answers import answers_of, join
from residual_course.commands.checkout import companion_of
from residual_course.commands.exercise_cells import tags
from residual_course.commands.notebook import read_notebook
from residual_course.companion import read
from residual_course.contents import predicts
from tools.book.explorers import explorer
from tools.book.pictures import Pictures
from tools.book.questions import SAID, Question, answered, asked, question_of
from tools.execute import plain
from tools.promote import targets

UNANSWERED = "Nothing answered yet."  # begins what a lesson displays where no learner has worked
PROGRESS = '<p class="answered"></p>'  # the page's script writes it
ANSWER = "..."  # source, never shown, of a cell that folds or has outputs alone; myst-nb leaves out an empty one
ASKS = "Predict: "  # begins what a question is on a page without a kernel
PROMPTS = {"solution": "Solution"}
LAB = '<p class="lab">{}: <code>python course.py lab</code>, then <code>my_lessons/{}</code> in its file list{}.</p>'
ONLINE = ', or <a href="{}">open it in the lab</a>'


class Lesson:
    """One notebook on its way into the book.

    Args:
        notebook: the stored one; its answers stand where ``answers_of`` says.
        states: the folder of its explorers' drawn states.
        pictures: where its figures are written.
        lab: what begins the address of its notebook in a lab; "" where there is none.
    """

    def __init__(self, notebook: Path, states: Path, pictures: Pictures, lab: str = "") -> None:
        top = next(folder for folder in notebook.parents if folder.name == "notebooks")
        self.name, self.states, self.pictures = notebook.relative_to(top).as_posix(), states, pictures
        self.up, self.online = "../" * self.name.count("/"), lab and ONLINE.format(html.escape(lab + self.name))
        self.stored = read_notebook(notebook)
        join(self.stored, answers_of(notebook))
        self.told = read(companion_of(notebook))["predictions"]
        self.asked: list[Question] = []
        self.explorers = 0

    def page(self) -> NotebookNode:
        """Return the notebook for Sphinx."""
        cells = [made for cell in self.stored.cells for made in self.shown(cell)]
        cells[0].source += "\n\n" + LAB.format("To run this page", self.name, self.online)
        for number, cell in enumerate(cells):
            cell.id = str(number)
        return NotebookNode(self.stored | {"cells": cells})

    def shown(self, cell: NotebookNode) -> Iterator[NotebookNode]:
        """Yield the cells that stand in the book for one of the notebook."""
        if cell.cell_type != "code":
            yield cell
        elif predicts(cell.source) and (question := question_of(cell)):
            yield from self.prediction(cell, question)
        else:
            yield from self.code(cell)

    def prediction(self, cell: NotebookNode, question: Question) -> Iterator[NotebookNode]:
        """Yield a question, the open code that answers it, and what a learner sees after a choice, to be folded."""
        self.asked.append(question)
        name = f"answer-{len(self.asked)}"
        told = self.told.get(question.text, {})
        why, after = told.get("why", {}), told.get("after", "")
        verdict = next(filter(SAID.fullmatch, said(cell)), "")
        shown = [one for one in cell.outputs if one.get("data", {}).get("text/markdown") not in (verdict, after)]
        shown = [one for one in shown if not one.get("data", {}).get("text/plain", "").startswith(ASKS)]
        fold, below = (new_code_cell(ANSWER, metadata={"tags": ["remove-input"]}) for _ in range(2))
        fold.metadata["answer"], below.outputs, cell.outputs = name, shown, []
        yield from [new_markdown_cell(asked(question, name)), cell]
        yield from [fold, new_markdown_cell(answered(question, why, verdict)), *self.code(below)]
        yield from [new_markdown_cell(after)] * bool(after)

    def code(self, cell: NotebookNode) -> Iterator[NotebookNode]:
        """Yield a cell of code with its outputs, and what stands below it."""
        below = list(self.below(cell))
        cell.outputs = [made for output in cell.outputs for made in self.output(output, cell)]
        fold(cell)
        yield from [cell, *map(new_markdown_cell, below)]

    def below(self, cell: NotebookNode) -> Iterator[str]:
        """Yield what the book says below a cell: the library's page of its piece, the way to JupyterLab."""
        for module in (target.replace("/", ".") for target in targets(cell)):
            yield f"In the library: {{py:mod}}`residual_edu.{module}`."
        if cell.metadata.get("nbgrader", {}).get("grade"):
            cell.outputs = []
            yield LAB.format("To answer, with a check that gives hints", self.name, self.online)

    def output(self, output: NotebookNode, cell: NotebookNode) -> Iterator[NotebookNode]:
        """Yield an output: a picture as HTML with its alternative text, an explorer with its controls, a text plain."""
        if "image/png" in output.get("data", {}):
            picture = self.pictures.html(output, self.up)
            if "explorer" in tags(cell):
                self.explorers += 1
                picture = explorer(self.states, self.explorers, picture, self.up)
            yield html_output(picture)
        elif output.get("data", {}).get("text/markdown", "").startswith(UNANSWERED):
            yield html_output(PROGRESS)
        else:
            if "text" in output:
                output.text = plain(output.text)
            yield output


def html_output(text: str) -> NotebookNode:
    """Return an output of HTML."""
    return new_output("display_data", data={"text/html": text})


def said(cell: NotebookNode) -> list[str]:
    """Return the Markdown that a cell displays."""
    return [output.data["text/markdown"] for output in cell.outputs if "text/markdown" in output.get("data", {})]


def fold(cell: NotebookNode) -> None:
    """Fold the code of a cell that is folded in JupyterLab, a solution with what it prints."""
    kind = next((tag for tag in PROMPTS if tag in tags(cell)), "")
    if cell.metadata.get("jupyter", {}).get("source_hidden"):
        kept = [tag for tag in tags(cell) if tag not in ("hide-cell", "hide-input")]
        cell.metadata["tags"] = [*kept, "hide-cell" if kind == "solution" else "hide-input"]
    name = PROMPTS.get(kind, label(cell.source))
    cell.metadata["mystnb"] = {"code_prompt_show": name, "code_prompt_hide": name}


def label(source: str) -> str:
    """Return what the fold of a cell is called: by the functions and classes in it, since the text names them."""
    names = re.findall(r"^(?:def|class) (\w+)", source, re.M)
    return f"Code: {', '.join(names)}" if names else "Code"

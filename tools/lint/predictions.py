"""Rules for predictions: a reason for each choice, a truth that is computed, and nothing that gives it away."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

from residual_course.commands.answers import apart
from residual_course.commands.checkout import companion_of
from residual_course.companion import read
from residual_course.contents import predicts
from tools.companions import is_code, question
from tools.lint.cells import code_cells, tree

MEASURED = re.compile(r"we measured (.+?)\.\*\*")
OPEN_TEXT = re.compile(r"^(?:#+ |\s*(?:[-*]|\d+\.) )(.*)", re.M)  # a heading, or an item of a list
TOO_COMMON = {"yes", "no", "none", "both", "neither"}  # words that are in the text for other reasons


def every_choice_has_its_reason(notebook: NotebookNode, source: Path) -> Iterator[str]:
    """A prediction of one cell writes out its choices, computes its truth, and has a reason for each choice."""
    for place, cell in code_cells(notebook):
        if call := predicts(cell.source):
            if not (asked := question(call)) or not asked.choices:
                yield f"{place} must write out its question and its choices"
                continue
            said = read(companion_of(source))["predictions"].get(asked.text, {})
            if lacking := [choice for choice in asked.choices if choice not in said.get("why", {})]:
                yield f"{place} has no reason in {companion_of(source).name} for {', '.join(map(repr, lacking))}"
            if not is_computed(cell, said.get("truth", "")):
                yield f"{place} must compute the truth from what it measured"


def is_computed(cell: NotebookNode, told: str) -> bool:
    """Whether the truth that the companion tells, or the last one that the cell sets, reads a name."""
    sets = [node for node in ast.walk(tree(cell)) if isinstance(node, ast.Assign)]
    truths = [ast.unparse(node.value) for node in sets if getattr(node.targets[0], "attr", "") == "truth"]
    said = (truths or [told])[-1]
    return is_code(said) and any(isinstance(node, ast.Name) for node in ast.walk(ast.parse(said)))


def nothing_is_given_away(notebook: NotebookNode, source: Path) -> Iterator[str]:
    """No heading, list item or alternative text before a prediction contains what it measures."""
    places, answers = {id(cell): place for place, cell in code_cells(notebook)}, {id(cell) for cell in apart(notebook)}
    before: list[str] = []
    for cell in notebook.cells:
        outputs = cell.get("outputs", [])
        if cell.cell_type == "markdown":
            before += OPEN_TEXT.findall(cell.source)
        elif id(cell) not in answers:
            before += [output.get("metadata", {}).get("image/png", {}).get("alt", "") for output in outputs]
        else:
            texts = (output.get("data", {}).get("text/markdown", "") for output in outputs)
            for truth in {truth for text in texts for truth in MEASURED.findall(text)} - TOO_COMMON:
                pattern = re.compile(rf"(?<![\w.]){re.escape(truth)}(?!\w|\.\w)", re.IGNORECASE)
                if told := next(filter(pattern.search, before), None):
                    yield f"{places[id(cell)]} measures {truth!r}, which was told before: {told[:60]!r}"


RULES = [every_choice_has_its_reason, nothing_is_given_away]

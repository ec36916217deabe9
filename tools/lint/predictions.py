"""Rules for predictions: asked alone, answered from what was measured, a reason for each choice, and not given away."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from nbformat import NotebookNode

from residual_course.commands.exercise_cells import tags
from tools.lint.cells import called, code_cells, tree

FIRST_LINE = "# Answer first, then run this cell."
WORDS = 80  # that a reason or an explanation may have
NUMBER = ("too low", "about right", "too high")
MEASURED = re.compile(r"we measured (.+?)\.\*\*")
OPEN_TEXT = re.compile(r"^(?:#+ |\s*(?:[-*]|\d+\.) )(.*)", re.M)  # a heading, or an item of a list
TOO_COMMON = {"yes", "no", "none", "both", "neither"}  # words that are in the text for other reasons


def questions(cell: NotebookNode) -> dict[str, ast.Call]:
    """Return the calls of ``predict`` in a cell by the name that each is bound to."""
    assigned = [node for node in tree(cell).body if isinstance(node, ast.Assign)]
    calls = [(each.targets[0], each.value) for each in assigned]
    return {ast.unparse(to): call for to, call in calls if isinstance(call, ast.Call) and called(call) == "predict"}


def reveals(cell: NotebookNode) -> dict[str, ast.Call]:
    """Return the calls of ``reveal`` in a cell by the name of the prediction that each is called on."""
    calls = [node for node in ast.walk(tree(cell)) if isinstance(node, ast.Call) and called(node) == "reveal"]
    return {ast.unparse(call.func.value): call for call in calls if isinstance(call.func, ast.Attribute)}


@dataclass(frozen=True)
class Prediction:
    """A question and its reveal, with the words that name their cells; ``None`` where there is no such cell."""

    asked: str
    question: ast.Call
    place: str = ""
    reveal: ast.Call | None = None


def predictions(notebook: NotebookNode) -> list[Prediction]:
    """Return every prediction of a lesson, with the first reveal below it that is called on its name."""
    found: list[Prediction] = []
    for place, cell in code_cells(notebook):
        for name, call in reveals(cell).items():
            for at, each in enumerate(found):
                if each.reveal is None and each.asked.endswith(f" {name}"):
                    found[at] = replace(each, place=place, reveal=call)
        found += [Prediction(f"{place} {name}", question) for name, question in questions(cell).items()]
    return found


def questions_stand_alone(notebook: NotebookNode) -> Iterator[str]:
    """A cell that asks holds one question and nothing else."""
    for place, cell in code_cells(notebook):
        if questions(cell) and (len(tree(cell).body) != 1 or "predict" not in tags(cell)):
            yield f"{place} asks for a prediction; it must be tagged predict and hold nothing else"


def questions_are_revealed(notebook: NotebookNode) -> Iterator[str]:
    """Each question has a cell that reveals it, tagged so, with its first line, the call at its end."""
    yield from (f"{each.asked!r} is asked, and no cell reveals it" for each in predictions(notebook) if not each.reveal)
    for place, cell in code_cells(notebook):
        if reveals(cell):
            if "reveal" not in tags(cell) or cell.source.partition("\n")[0] != FIRST_LINE:
                yield f"{place} reveals; it must be tagged reveal and begin with {FIRST_LINE!r}"
            if called(getattr(tree(cell).body[-1], "value", tree(cell))) != "reveal":
                yield f"{place} must end with its reveal"


def truths_are_computed(notebook: NotebookNode) -> Iterator[str]:
    """What is revealed follows from what was measured: its expression reads a name."""
    for place, cell in code_cells(notebook):
        for call in reveals(cell).values():
            if not call.args or not any(isinstance(node, ast.Name) for node in ast.walk(call.args[0])):
                yield f"{place} must compute the truth that it reveals from what it measured"


def every_choice_has_its_reason(notebook: NotebookNode) -> Iterator[str]:
    """A reveal has a reason of at most 80 words for each choice (for a number: too low, about right, too high)."""
    for each in predictions(notebook):
        if each.reveal:
            yield from missing_reasons(each.place, each.question, each.reveal)
            yield from long_texts(each.place, each.reveal)


def missing_reasons(place: str, question: ast.Call, call: ast.Call) -> Iterator[str]:
    """Yield a sentence where the reasons of a reveal are not those of its question's choices."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}.get("why")
    reasons = {ast.literal_eval(key) for key in given.keys if key} if isinstance(given, ast.Dict) else set()
    listed = question.args[1] if len(question.args) > 1 else None
    wanted = {ast.literal_eval(one) for one in listed.elts} if isinstance(listed, ast.List) else set(NUMBER)
    if lacking := sorted(wanted - reasons):
        yield f"{place} gives no reason (why=) for {', '.join(map(repr, lacking))}"


def long_texts(place: str, call: ast.Call) -> Iterator[str]:
    """Yield a sentence for each reason or explanation of more than 80 words."""
    for node in ast.walk(call):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.split()) > WORDS:
            yield f"{place} has a text of {len(node.value.split())} words, more than {WORDS}: {node.value[:30]!r}..."


def nothing_is_given_away(notebook: NotebookNode) -> Iterator[str]:
    """No question, list item, heading or alternative text before a reveal contains what it reveals."""
    before: list[str] = []
    for place, cell in code_and_text(notebook):
        for text in spoken(cell) if "reveal" in tags(cell) else ():
            for truth in MEASURED.findall(text):
                pattern = re.compile(rf"(?<![\w.]){re.escape(truth)}(?!\w|\.\w)", re.IGNORECASE)
                if truth not in TOO_COMMON and (told := next(filter(pattern.search, before), None)):
                    yield f"{place} reveals {truth!r}, which was told before: {told[:60]!r}"
        if cell.cell_type == "markdown":
            before += OPEN_TEXT.findall(cell.source)
        elif "reveal" not in tags(cell) and "solution" not in tags(cell):
            before += [ast.literal_eval(question.args[0]) for question in questions(cell).values()]
            before += [
                output.metadata.get("image/png", {}).get("alt", "") for output in cell.outputs if "data" in output
            ]


def code_and_text(notebook: NotebookNode) -> Iterator[tuple[str, NotebookNode]]:
    """Yield every cell with the words that name it."""
    names = {id(cell): place for place, cell in code_cells(notebook)}
    yield from ((names.get(id(cell), ""), cell) for cell in notebook.cells)


def spoken(cell: NotebookNode) -> Iterator[str]:
    """Yield the Markdown that a cell displays."""
    yield from (output.get("data", {}).get("text/markdown", "") for output in cell.get("outputs", []))


SOURCE_RULES = [questions_stand_alone, questions_are_revealed, truths_are_computed, every_choice_has_its_reason]
OUTPUT_RULES = [nothing_is_given_away]

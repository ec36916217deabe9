"""A prediction in the book: the question with buttons that answer in the page, and what it says to each answer.

What was measured, and the explanation, are read from the stored output; the reason of each choice from the lesson's
companion, or from the source of the reveal, as far as it is written there and not computed.
"""

import ast
import html
import re
from collections.abc import Iterator, Mapping

from nbformat import NotebookNode

from tools import companions
from tools.companions import Question

SAID = re.compile(r"\*\*You made no prediction; we measured (?P<truth>.+?)\.\*\* ?(?P<rest>.*)", re.S)


def question_of(cell: NotebookNode) -> Question | None:
    """Return what a cell asks, if it asks anything."""
    return companions.question(call_of(cell, "predict"))


def call_of(cell: NotebookNode, name: str) -> ast.Call | None:
    """Return the last call of a function or method of that name in a cell."""
    calls = [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Call)]
    named = [call for call in calls if getattr(call.func, "attr", getattr(call.func, "id", None)) == name]
    return named[-1] if named else None


def reasons_of(reveal: NotebookNode) -> dict[str, str]:
    """Return the reason of each choice, but for those that the reveal computes."""
    keywords = {keyword.arg: keyword.value for keyword in getattr(call_of(reveal, "reveal"), "keywords", ())}
    given, texts = keywords.get("why"), texts_of(reveal)
    if not isinstance(given, ast.Dict):
        return {}
    pairs = [(text(key, texts), text(value, texts)) for key, value in zip(given.keys, given.values, strict=True)]
    return {key: value for key, value in pairs if key is not None and value is not None}


def texts_of(cell: NotebookNode) -> dict[str, str]:
    """Return the texts that a cell gives names to."""
    found: dict[str, str] = {}
    for node in ast.parse(cell.source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = text(node.value, found)
            found |= {} if value is None else {node.targets[0].id: value}
    return found


def text(node: ast.expr | None, texts: Mapping[str, str]) -> str | None:
    """Return the text that an expression writes, of constants, names of ``texts`` and sums; None for any other."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Name):
        return texts.get(node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = text(node.left, texts), text(node.right, texts)
        return None if left is None or right is None else left + right
    return None


def asked(question: Question, answer: str) -> str:
    """Return the question's HTML, one line; ``answer`` is the id of the fold that it opens."""
    title = html.escape(question.text, quote=True)
    return (
        f'<div class="prediction" data-answer="{answer}" data-question="{title}">'
        f"<p><strong>{html.escape(question.text, quote=False)}</strong></p>"
        f'<div class="choices" role="group" aria-label="{title}">{"".join(controls(question))}</div></div>'
    )


def controls(question: Question) -> Iterator[str]:
    """Yield a button for each choice, then the one that opens the answer without any."""
    for at, choice in enumerate(question.choices):
        yield f'<button type="button" data-choice="{at}" aria-pressed="false">{html.escape(choice)}</button>'
    yield '<button type="button" class="show">show me</button>'


def answered(question: Question, reasons: Mapping[str, str], said: str) -> str:
    """Return as MyST what an answer displays: a text for each choice, one for none, and the explanation."""
    found = SAID.fullmatch(said.strip())
    if not found:
        return said
    truth, (reason, _, after) = found["truth"], found["rest"].partition("\n\n")
    reasons = {**reasons, truth: reason}
    parts = [block("said none", f"**We measured {truth}.** {reason}")]
    for at, choice in enumerate(question.choices):
        parts.append(block(f"said said-{at}", f"**You said {choice}; we measured {truth}.** {reasons.get(choice, '')}"))
    return "\n\n".join([*parts, after])


def block(classes: str, markdown: str) -> str:
    """Return Markdown in a container with classes of its own."""
    return f"::::{{container}} {classes}\n{markdown.strip()}\n::::"

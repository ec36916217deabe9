"""A prediction in the book: the question with buttons that answer in the page, and what it says to each answer.

What was measured is read from the stored output, the reason of each choice from the lesson's companion.
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

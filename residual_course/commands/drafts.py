"""Lessons that are still drafts: built and executed, held to nothing else, and not handed out."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import jupytext
from nbformat import NotebookNode

from residual_course.commands.checkout import Refusal, with_homework

HEADER = re.compile(r"# ---\n.*?^# ---$", re.M | re.S)


def is_draft(notebook: NotebookNode) -> bool:
    """Whether a lesson's header says ``draft: true``."""
    return notebook.metadata.get("draft") is True


def finished(sources: Iterable[Path]) -> list[Path]:
    """Return those of ``sources`` that are no drafts; of each file only its header is parsed."""
    headers = {source: HEADER.match(source.read_text(encoding="utf-8", errors="replace")) for source in sources}
    return [s for s, header in headers.items() if not (header and is_draft(jupytext.reads(header[0], "py:percent")))]


def handed_out(root: Path, names: Sequence[str] = ()) -> list[Path]:
    """Return the sources of what learners get, in order: all, or those that ``names`` begin.

    Raises:
        Refusal: for a name that begins no lesson, and where only drafts are named.
    """
    sources = with_homework(root, names)
    if names and not finished(sources):
        raise Refusal(f"Drafts are not handed out: {', '.join(source.stem for source in sources)}.")
    return finished(sources)

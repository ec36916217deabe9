"""What a check prints: a line for each property, then the next step."""

import linecache
import textwrap
import traceback
from typing import Any

from residual_edu.exercises.exercise import Exercise, Mistake
from residual_edu.exercises.guard import Notepad, Outcome
from residual_edu.exercises.time_limit import OutOfTime
from residual_edu.exercises.unmet import Unmet

PRINTED = 5  # lines of the learner's own printing that are shown
WIDTH = 88  # columns of a line, so that a notebook need not break it inside a word
INDENT = " " * 9


def not_attempted(name: str, exercise: Exercise) -> str:
    """Return the report on an untouched stub, with the first hint."""
    return f"{name}: not attempted yet.\n{wrapped('Hint: ', exercise.hints[0])}"


def verdicts(exercise: Exercise, outcomes: list[Outcome], answer: Any) -> list[str]:
    """Return, for each property, whether it holds and, if not, what was seen; a repeated finding is written once."""
    lines, said = [], ""
    for prop, outcome in zip(exercise.properties, outcomes, strict=True):
        seen = outcome.trouble and outcome.trouble + own_line(outcome.error, answer)
        if not seen:
            lines.append(wrapped("holds:   ", prop.holds))
        elif seen != said:
            lines += [wrapped("not yet: ", prop.holds), wrapped(INDENT, seen)]
        else:
            again = ("not run: ", prop.holds) if outcome.timed_out else ("not yet: ", f"{prop.holds} (the same)")
            lines.append(wrapped(*again))
        said = seen or said
    return lines


def own_line(error: BaseException | None, answer: Any) -> str:
    """Return the last line of the learner's code that an error passed through, where its text is at hand."""
    if error is None or isinstance(error, Unmet | OutOfTime):  # it returned, or was stopped wherever it happened to be
        return ""
    home = getattr(answer, "__module__", None)
    walk = traceback.walk_tb(error.__traceback__)
    own = [(frame.f_code.co_filename, line) for frame, line in walk if frame.f_globals.get("__name__") == home]
    text = linecache.getline(*own[-1]).strip() if own else ""
    return f" (your line {own[-1][1]}: `{text}`)" if text else ""


def next_step(exercise: Exercise, mistake: Mistake | None, first: Outcome) -> str:
    """Return the known mistake with its mend, or the second hint; neither if the ``first`` trouble is mechanical."""
    if mistake:
        return wrapped("", f"This looks like {mistake.looks_like}. {mistake.next_step}")
    return "Mend that first, then check again." if first.mechanical else wrapped("Hint: ", exercise.hints[1])


def printing(notes: Notepad) -> list[str]:
    """Return the first lines that the answer printed while it was checked."""
    lines = [wrapped(INDENT, line[:100]) for line in notes.text.splitlines()[:PRINTED]]
    if notes.lines > PRINTED:
        lines.append(f"{INDENT}... and {notes.lines - PRINTED} more lines")
    return ["While it was checked, your code printed:", *lines] if lines else []


def wrapped(label: str, text: str) -> str:
    """Return ``label`` and ``text`` in lines of at most ``WIDTH``, indented by the label's length; words stay whole."""
    return textwrap.fill(
        label + text, WIDTH, subsequent_indent=" " * len(label), break_long_words=False, break_on_hyphens=False
    )

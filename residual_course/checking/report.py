"""What a check prints: what holds, or the first property that does not with what was seen, then what may help."""

import linecache
import textwrap
import traceback
from typing import Any

from residual_course.checking.exercise import Exercise, Mistake, Property
from residual_course.checking.guard import Notepad, Outcome
from residual_course.checking.session import Attempts
from residual_course.checking.time_limit import OutOfTime
from residual_course.checking.unmet import NOTES, Unmet

LINES = 8  # of a report on an answer that fails
PRINTED = 5  # lines of the learner's own printing that are shown
WIDTH = 88  # columns of a line, so that a notebook need not break it inside a word
SEEN = 4  # lines of what was seen, which may be the text of an error
INDENT, HOLDING = " " * 9, "holds:   "
SOLUTION = "One solution is folded below this check. Read it, close it, and write your own."


def not_attempted(name: str) -> str:
    """Return the report on an untouched stub."""
    return f"{name}: not attempted yet. Hint 1 is folded in the cell above the exercise."


def passing(exercise: Exercise) -> list[str]:
    """Return a line for each property, all of which hold."""
    return [*(wrapped("holds:   ", prop.holds) for prop in exercise.properties), *notes()]


def verdict(prop: Property, first: Outcome, outcomes: list[Outcome], answer: Any) -> list[str]:
    """Return the lines on the first property that does not hold; what may follow from it is only counted."""
    seen = wrapped(INDENT, first.trouble + own_line(first.error, answer)).split("\n")
    lines = [wrapped("not yet: ", prop.holds), *seen[:SEEN]]
    if holding := sum(not outcome.trouble for outcome in outcomes):
        lines.append(f"{HOLDING}{holding} of the {len(outcomes)} properties.")
    return [line for text in [*lines, *notes()] for line in text.split("\n")]


def shortened(lines: list[str]) -> list[str]:
    """Return a report in at most ``LINES``: what holds is left out first, then the end."""
    if len(lines) > LINES:
        lines = [line for line in lines if not line.startswith(HOLDING)]
    return lines[:LINES]


def notes() -> list[str]:
    """Return what was let pass while the answer was checked, each once."""
    return [wrapped("note:    ", text) for text in NOTES]


def own_line(error: BaseException | None, answer: Any) -> str:
    """Return the last line of the learner's code that an error passed through, where its text is at hand."""
    if error is None or isinstance(error, Unmet | OutOfTime):  # it returned, or was stopped wherever it happened to be
        return ""
    home = getattr(answer, "__module__", None)
    walk = traceback.walk_tb(error.__traceback__)
    own = [(frame.f_code.co_filename, line) for frame, line in walk if frame.f_globals.get("__name__") == home]
    text = linecache.getline(*own[-1]).strip() if own else ""
    return f" (your line {own[-1][1]}: `{text}`)" if text else ""


def next_step(
    exercise: Exercise, prop: Property, first: Outcome, found: tuple[Mistake, bool] | None, counted: Attempts
) -> list[str]:
    """Return the diagnosis and, by the number of attempts, a hint or the place of the solution.

    First failure: the diagnosis alone. Second: its next step, or hint 1. Third: hint 2. Then the folded solution.
    Hints concern ideas, so attempts with mechanical trouble do not bring them nearer.
    """
    text = [diagnosed(found, len(counted.ideas) > 1)] if found else []
    if first.mechanical and not found:
        text.append(wrapped("", "Mend that first, then check again."))
    elif not first.mechanical and (hint := len(counted.ideas) - 1) in prop.hints and (hint == 2 or not found):
        text.append(wrapped("Hint: ", exercise.hints[hint - 1]))
    if len(counted.failed) > 3:
        text.append(SOLUTION)
    return [line for one in text for line in one.split("\n")]


def diagnosed(found: tuple[Mistake, bool], again: bool) -> str:
    """Name the mistake, with "may be" where the evidence is thin; ``again``, with its next step."""
    mistake, sure = found
    step = f" {mistake.next_step}" if again else ""
    return wrapped("", f"This {'looks like' if sure else 'may be'} {mistake.looks_like}.{step}")


def printing(text: Notepad, room: int) -> list[str]:
    """Return the first lines that the answer printed while it was checked, in at most ``room`` lines."""
    shown = text.text.splitlines()[: max(min(PRINTED, room - 2), 0)]
    lines = [f"{INDENT}{line[: WIDTH - len(INDENT)]}" for line in shown]
    if lines and text.lines > len(shown):
        lines.append(f"{INDENT}... and {text.lines - len(shown)} more lines")
    return ["While it was checked, your code printed:", *lines] if lines else []


def wrapped(label: str, text: str) -> str:
    """Return ``label`` and ``text`` in lines of at most ``WIDTH``, indented by the label's length; words stay whole."""
    return textwrap.fill(
        label + text, WIDTH, subsequent_indent=" " * len(label), break_long_words=False, break_on_hyphens=False
    )


IN_THE_WAY = wrapped(
    "",
    "The course's own answer fails here too: something in this session is in the way, such as a function of torch "
    "that was replaced. Restart the kernel, run the cells above, and check again.",
)

"""What a check says: a line for each property, then the next step."""

import linecache
import traceback
from typing import Any

from residual_edu.exercises.exercise import Exercise, Mistake
from residual_edu.exercises.guard import Notepad, Outcome
from residual_edu.exercises.properties import Unmet
from residual_edu.exercises.time_limit import OutOfTime

PRINTED = 5  # lines of the learner's own printing that are shown


def not_attempted(name: str, exercise: Exercise) -> str:
    """Say so, with the first hint."""
    return f"{name}: not attempted yet.\nHint: {exercise.hints[0]}"


def verdicts(exercise: Exercise, outcomes: list[Outcome], candidate: Any) -> list[str]:
    """Say of each property whether it holds, and if not, what was seen; the same thing is said once."""
    lines, said = [], ""
    for prop, outcome in zip(exercise.properties, outcomes, strict=True):
        seen = outcome.trouble and outcome.trouble + own_line(outcome.error, candidate)
        if not seen:
            lines.append(f"holds:   {prop.holds}")
        elif seen != said:
            lines += [f"not yet: {prop.holds}", f"         {seen}"]
        else:
            lines.append(f"not run: {prop.holds}" if outcome.timed_out else f"not yet: {prop.holds} (the same)")
        said = seen or said
    return lines


def own_line(error: BaseException | None, candidate: Any) -> str:
    """Return the last line of the learner's code that an error passed through, where its text is at hand."""
    if error is None or isinstance(error, Unmet | OutOfTime):  # it returned, or was stopped wherever it happened to be
        return ""
    home = getattr(candidate, "__module__", None)
    walk = traceback.walk_tb(error.__traceback__)
    own = [(frame.f_code.co_filename, line) for frame, line in walk if frame.f_globals.get("__name__") == home]
    text = linecache.getline(*own[-1]).strip() if own else ""
    return f" (your line {own[-1][1]}: `{text}`)" if text else ""


def next_step(exercise: Exercise, mistake: Mistake | None) -> str:
    """Name the known mistake and its mend, or give the second hint."""
    if mistake is None:
        return f"Hint: {exercise.hints[1]}"
    return f"This looks like {mistake.looks_like}. {mistake.next_step}"


def printing(notes: Notepad) -> list[str]:
    """Show the first lines of what the candidate printed while it was checked."""
    lines = [f"         {line[:100]}" for line in notes.text.splitlines()[:PRINTED]]
    if notes.lines > PRINTED:
        lines.append(f"         ... and {notes.lines - PRINTED} more lines")
    return ["While it was checked, your code printed:", *lines] if lines else []

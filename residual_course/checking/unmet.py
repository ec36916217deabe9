"""What a property reports: one sentence on what an answer did instead, or a note on what was let pass."""

from typing import Any

NOTES: list[str] = []  # of the check that runs now


class Unmet(Exception):
    """What an answer did instead of what was asked, in one sentence for the learner."""


class Broken(Unmet):
    """A mechanical slip, told whole by its sentence: a type, a shape, a missing gradient, a changed input."""


def note(text: str) -> None:
    """Say ``text`` once in the report of the check that runs now; the test goes on."""
    if text not in NOTES:
        NOTES.append(text)


def wrong_kind(said: str, value: Any, asked: str) -> Unmet:
    """Name the type of ``value``, with its article, and what was asked for."""
    if value is None:
        return Broken(f"{said} nothing (is a `return` missing?), where {asked}")
    name = type(value).__name__
    return Broken(f"{said} {'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}, where {asked}")

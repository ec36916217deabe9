"""What the last cell of a lesson displays, and the first: what one has done in it, and where in the course one is."""

import re
from contextlib import suppress
from pathlib import Path

from residual_course import contents, progress
from residual_course.contents import Asked

# What a stored notebook shows, the same in each build.
NO_ANSWER = (
    "Nothing answered yet. Your predictions will stand here beside what was measured, and the exercises that hold."
)
NO_LESSON = "Nothing answered yet. Here will stand which lessons are done, and which is next."
SIGNS = re.compile(r"([\\`*_{}\[\]<>$|~#&])")  # of Markdown


def summary_of(lesson: str) -> str:
    """Return as Markdown what was predicted beside what was measured, and which exercises of ``lesson`` hold.

    Args:
        lesson: its number, such as "08a". Its notebook is looked for in this session's folder; where it is not there,
            as in Colab, what this session was asked stands without the sections.
    """
    done, trouble = progress.everything()
    if not any(done.values()):
        return trouble or NO_ANSWER
    here = asked_in(lesson) or [Asked(kind, name) for kind in done for name in progress.SESSION[kind]]
    guesses = [prediction(each, done) for each in here if each.kind == "predictions"]
    tasks = [each for each in here if each.kind == "exercises"]
    held = sum(each.name in done["exercises"] for each in tasks)
    parts = [trouble, "**Your predictions**" if guesses else "", "\n".join(guesses)]
    parts += [f"**Exercises: {held} of {len(tasks)} hold**" if tasks else ""]
    parts += ["\n".join(exercise(each, each.name in done["exercises"]) for each in tasks)]
    return "\n\n".join(filter(None, parts)) or f"No notebook of lesson {lesson} lies in this session's folder."


def asked_in(lesson: str) -> list[Asked]:
    """Return what the notebook of ``lesson`` asks; nothing where it cannot be found or read."""
    with suppress(OSError, ValueError, KeyError):
        return contents.asked(contents.lessons(Path.cwd())[lesson])
    return []


def prediction(asked: Asked, done: progress.Answers) -> str:
    """Return one item of the list: the question, what was answered, what was measured, and what to read again."""
    said, result = done["predictions"].get(asked.name), done["measured"].get(asked.name)
    question = f"- {plain(asked.name)}<br>"
    if not said or not isinstance(said, str):
        return f"{question}Not answered yet."
    if not isinstance(result, dict) or "text" not in result:
        return f"{question}You said {plain(said)}; not measured yet."
    if said == result["text"]:
        return f"{question}You said {plain(said)}, as measured."
    return f"{question}You said {plain(said)}; we measured {plain(str(result['text']))}.{read_again(asked)}"


def exercise(asked: Asked, holds: bool) -> str:
    """Return one item of the list: the exercise, and what to read again if it is open."""
    name = ", ".join(filter(None, [asked.heading, f"`{asked.name}`"]))
    return f"- {name} holds." if holds else f"- {name} is open.{read_again(asked)}"


def read_again(asked: Asked) -> str:
    """Return the words that lead to a section, none where it is not known."""
    return f" Read again: {contents.link(asked.section)}" if asked.section else ""


def progress_at(lesson: str) -> str:
    """Return as Markdown which lessons are done and which is next: one is done when all its exercises hold."""
    done, trouble = progress.everything()
    if not any(done.values()):
        return trouble or NO_LESSON
    paths = contents.lessons(Path.cwd())
    left = {number: still_open(path, done) for number, path in paths.items()}
    finished = ", ".join(number for number in left if left[number] == 0)
    said = f"{trouble} This is lesson {lesson}. Done (all exercises hold): {finished or 'no lesson yet'}.".strip()
    following, count = next(((number, count) for number, count in left.items() if count), ("", 0))
    if not count:
        return f"{said} That is the whole course." if finished else said
    where = "this one" if following == lesson else f"[lesson {following}]({paths[following].name})"
    return f"{said} Next: {where}, with {count} exercise{'s' * (count > 1)} open."


def still_open(path: Path, done: progress.Answers) -> int | None:
    """Return how many exercises of a notebook do not hold yet: 1 if it cannot be read, ``None`` if it has none."""
    with suppress(OSError, ValueError):
        tasks = [each.name in done["exercises"] for each in contents.asked(path) if each.kind == "exercises"]
        return tasks.count(False) if tasks else None
    return 1


def plain(text: str) -> str:
    """Return ``text`` as Markdown that shows it as it is."""
    return SIGNS.sub(r"\\\1", text)

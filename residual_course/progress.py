"""What a learner has done, in one small file: answers to predictions, what was measured, exercises that hold.

The file is ``answers.json`` beside the lessons: in ``my_lessons``, in a clone's ``notebooks``, in a handout. A session
elsewhere (Colab, a plain script) reads and writes nothing, nor does one where ``RESIDUAL_EDU_STRICT`` is set, as builds
and tests set it.
A lesson never stops for this file: what cannot be read or written becomes a sentence.
What is not written, a session still remembers until its kernel restarts; a build or a test remembers nothing.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from filelock import FileLock

import residual_course.contents as contents

FOLDER, FILE = "my_lessons", "answers.json"
COPIES = Path(__file__).parents[1] / FOLDER  # of this checkout; a link to it is not seen from within
KINDS = ("predictions", "measured", "exercises")
UNREADABLE = f"{{}}/{FILE} cannot be read, so every lesson counts as open; nothing in it is lost."
UNTIL = "so what you answer is forgotten when the kernel restarts"
CLOSED = f"{{}}/{FILE} cannot be written, {UNTIL}; to keep it, work in a copy of the folder that is your own."
NO_FOLDER = f"The course's notebooks are not in this session's folder, {UNTIL}; save this one to keep what it shows."
PATIENCE = 5  # seconds to wait for another notebook that writes at the same moment

Answers = dict[str, dict[str, Any]]  # kind, then the question or the exercise's name, then the answer
SESSION: Answers = {kind: {} for kind in KINDS}  # what this kernel was told


def home() -> Path | None:
    """Return the folder with the lessons, this session's or the one above it; ``None`` elsewhere."""
    if is_strict():
        return None
    with suppress(OSError):  # a current folder that was deleted
        here = Path.cwd()
        if here in (COPIES.resolve(), (COPIES / "homework").resolve()):
            return COPIES
        return next(filter(has_lessons, (here, here.parent)), None)
    return None


def has_lessons(folder: Path) -> bool:
    """Whether ``folder`` holds lessons of this course; another's 01_intro.ipynb may lie beside other answers."""
    found = contents.lessons(folder).values()
    return folder.name == FOLDER or any(b"residual_course" in path.read_bytes() for path in found)


def is_strict() -> bool:
    """Whether this is a build or a test, which keeps nothing and prints the same each time."""
    return bool(os.environ.get("RESIDUAL_EDU_STRICT"))


def recall(kind: str, name: str) -> Any:
    """Return what was kept under ``name``, or where nothing is kept, what this session was told; else ``None``."""
    folder = home()
    return (read(folder)[0] if folder else SESSION)[kind].get(name)


def everything() -> tuple[Answers, str]:
    """Return all answers, those of this session over those of the file, and a sentence where they are not kept."""
    folder = home()
    kept, trouble = read(folder) if folder else ({}, "" if is_strict() else NO_FOLDER)
    return {kind: kept.get(kind, {}) | SESSION[kind] for kind in KINDS}, trouble


def read(folder: Path) -> tuple[Answers, str]:
    """Return the answers kept in ``folder``, and a sentence where they cannot be read or no more can be kept."""
    try:
        answers = load(folder)
    except (OSError, ValueError):
        return {kind: {} for kind in KINDS}, UNREADABLE.format(folder.name)
    return answers, "" if os.access(folder, os.W_OK) else CLOSED.format(folder.name)


def keep(kind: str, name: str, value: Any) -> str:
    """Keep ``value`` under ``name``, where this session keeps answers at all.

    Args:
        kind: one of ``KINDS``.
        name: the prediction's question, or the exercise's name.
        value: what JSON can hold.

    Returns:
        An empty text, or one sentence for the learner that says what went wrong.
    """
    folder = home()
    if not is_strict():
        SESSION[kind][name] = value
    if folder is None:
        return ""
    try:
        return change(folder, {kind: {name: value}})
    except OSError as error:
        reason = error.strerror or error
        return f"Not kept in {folder.name}/{FILE} ({reason}); the lesson goes on, but a restart will forget this."


def change(folder: Path, news: Answers, gone: Answers | None = None) -> str:
    """Write the answers ``news`` into the file and drop those of ``gone``; return the sentence of ``keep``.

    Raises:
        OSError: for a file that cannot be written.
    """
    trouble = ""
    with FileLock(folder / ".answers.lock", timeout=PATIENCE):
        try:
            answers = load(folder)
        except ValueError:
            answers, trouble = {kind: {} for kind in KINDS}, put_aside(folder / FILE)
        for kind in KINDS:
            kept = {name: value for name, value in answers[kind].items() if name not in (gone or {}).get(kind, {})}
            answers[kind] = kept | news.get(kind, {})
        replace(folder / FILE, json.dumps(answers, indent=1, ensure_ascii=False) + "\n")
    return trouble


def load(folder: Path) -> Answers:
    """Return the answers kept in ``folder``.

    Raises:
        OSError: for a file that cannot be read.
        ValueError: for one that does not hold answers.
    """
    try:
        answers = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        answers = {}
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    if not isinstance(answers, dict) or not all(isinstance(answers.get(kind, {}), dict) for kind in KINDS):
        raise ValueError("not a file of answers")
    return {kind: answers.get(kind, {}) for kind in KINDS}


def put_aside(path: Path) -> str:
    """Rename a file that cannot be read, so that nothing in it is lost, and return a sentence that says so."""
    aside = next(
        free for n in range(1, 1000) if not (free := path.with_name(f"{path.stem} (unreadable {n}).json")).exists()
    )
    path.rename(aside)
    where = f"{path.parent.name}/{path.name}"
    return f"{where} could not be read: it is now called {aside.name!r}, and answers are kept from here on."


def replace(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` whole or not at all; a file marked read-only is left as it is.

    Raises:
        OSError: for a file or a folder that cannot be written, and for a full disk.
    """
    if path.exists() and not path.stat().st_mode & 0o222:
        raise PermissionError(13, "the file is read-only", str(path))
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_text(text, encoding="utf-8", newline="\n")
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)

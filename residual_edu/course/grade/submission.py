"""A submission: a notebook that somebody sent, of which only the answers are taken."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

from residual_edu.course.grade.assignment import Assignment

LARGEST = 20_000_000  # bytes of a notebook that is still read


@dataclass(frozen=True)
class Submission:
    """The answers by the id of their task; ``troubles`` says why one is not there, or why none is."""

    path: str
    digest: str
    answers: dict[str, str] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)


def read_submission(path: str, assignment: Assignment) -> Submission:
    """Return what ``path`` holds; a file that cannot be read is a submission without answers."""
    ids = [task.id for task in assignment.tasks]
    try:
        content = limited_bytes(path)
    except OSError as error:
        return Submission(path, "", {}, dict.fromkeys(ids, f"the file cannot be read ({error.strerror})"))
    digest = hashlib.sha256(assignment.digest.encode() + content).hexdigest()[:16]
    try:
        notebook = nbformat.reads(content.decode(), as_version=4)
        cells = [(cell.metadata.get("nbgrader", {}).get("grade_id"), cell) for cell in notebook.cells]
        found = {task: [str(cell.source) for name, cell in cells if name == task] for task in ids}
    except Exception:  # whatever a stranger's file makes of a parser
        return Submission(path, digest, {}, dict.fromkeys(ids, "the file is no notebook"))
    answers = {task: sources[0] for task, sources in found.items() if len(sources) == 1}
    many = {task: "the cell is missing" if not found[task] else "the cell comes more than once" for task in ids}
    return Submission(path, digest, answers, {task: why for task, why in many.items() if task not in answers})


def limited_bytes(path: str) -> bytes:
    """Return the bytes of an ordinary file of at most ``LARGEST`` bytes."""
    file = Path(path)
    if not file.is_file():
        raise OSError(0, "there is no such file")
    if file.stat().st_size > LARGEST:
        raise OSError(0, f"it is larger than {LARGEST // 1_000_000} MB")
    return file.read_bytes()

"""Submissions: where they stand, and what of one is handed to nbgrader, whatever was handed in."""

import json
import re
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell

from residual_course.commands.checkout import Refusal
from residual_course.commands.notebook import read_notebook

NONE = "nothing was handed in"
STUDENT = "student"  # in a folder of its own nobody needs another name
# What an archive, a system or Jupyter leaves beside what was handed in, besides names that begin with a dot or __.
LEFT = {"thumbs.db", "desktop.ini", "@eadir", "$recycle.bin", "system volume information", "lost+found"}
LARGEST = 300_000_000  # bytes of a notebook with its outputs
MAKERS = {"code": new_code_cell, "markdown": new_markdown_cell, "raw": new_raw_cell}


class NotGradable(Exception):
    """Why a submission cannot be graded, in one sentence for its row."""


@dataclass(frozen=True)
class Submission:
    """What a student handed in for an assignment; the folder may be missing."""

    student: str
    assignment: str
    folder: Path

    def notebooks(self) -> list[Path]:
        """Return the notebooks in the folder; what is no plain file is left alone."""
        found = [path for path in there(self.folder) if path.suffix.lower() == ".ipynb"]
        return [path for path in found if path.is_file() and not path.is_symlink()]

    def without_notebook(self) -> str:
        """Return what there is instead of a notebook."""
        others = [path.name for path in there(self.folder) if path.suffix != ".txt"]
        if others:
            return f"could not be graded: there is no notebook, only {', '.join(others)}"
        if any(path.suffix.lower() == ".ipynb" for path in there(self.folder.parent)):
            return f"could not be graded: its notebook does not stand in a folder {self.assignment}"
        return NONE

    def files(self) -> list[Path]:
        """Return all that a grade depends on: the notebooks, and when they were handed in."""
        return [*self.notebooks(), *self.folder.glob("timestamp.txt")]


def there(folder: Path) -> list[Path]:
    """Return what stands in ``folder``, in order, without what nobody put there."""
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in found if not path.name.startswith((".", "__")) and path.name.lower() not in LEFT]


def find(out: Path, assignments: Sequence[str], students: Sequence[str]) -> list[Submission]:
    """Return a submission for each student of the list or with a folder, and each assignment that anybody handed in."""
    top = out / "submitted"
    folders = [folder for folder in there(top) if folder.is_dir()]
    handed_in = sorted({path.name for folder in folders for path in there(folder) if path.is_dir()})
    place = by_student([folder.name for folder in folders], top)
    names = place | by_student(students, out / "students.csv")
    every = [
        Submission(tidy(name), each, top / place.get(who, name) / each)
        for each in assignments or handed_in
        for who, name in sorted(names.items())
    ]
    known = sources(out / "source")
    return [each for each in every if each.assignment in known or each.folder.is_dir()]


def by_student(names: Sequence[str], where: Path) -> dict[str, str]:
    """Return ``names`` by what their spellings share; raise ``Refusal`` for two of one student."""
    found = dict[str, str]()
    for name in names:
        if (first := found.setdefault(spelled(name), name)) != name:
            raise Refusal(f"{where} has {first!a} and {name!a}, which read alike: leave one spelling of this student.")
    return found


def spelled(student: str) -> str:
    """Return what the spellings of one name share."""
    return unicodedata.normalize("NFKC", tidy(student)).casefold()


def tidy(name: str) -> str:
    """Return ``name`` in Unicode's composed form, with single blanks inside and without signs that take no room."""
    seen = "".join(c for c in unicodedata.normalize("NFC", name) if unicodedata.category(c) != "Cf")
    return " ".join(seen.split())


def sources(folder: Path) -> dict[str, Path]:
    """Return the assignments' source notebooks by name."""
    found = (each / f"{each.name}.ipynb" for each in there(folder))
    return {path.stem: path for path in found if path.exists()}


def read(submission: Submission, source: Path) -> NotebookNode:
    """Return the cells of a submission without outputs, as a notebook that nbgrader reads.

    Args:
        submission: what was handed in.
        source: the folder of all assignments' source notebooks.

    Raises:
        NotGradable: for no notebook, a broken one, or that of another assignment.
    """
    path = notebook_in(submission)
    if path.stat().st_size > LARGEST:
        raise NotGradable(f"its notebook is larger than {LARGEST // 1_000_000} MB")
    try:
        notebook = plain(json.loads(path.read_bytes().decode("utf-8-sig", errors="replace")))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, MemoryError):
        raise NotGradable(f"{path.name} is no notebook") from None
    refuse_another(grade_ids(notebook), submission.assignment, source)
    return notebook


def notebook_in(submission: Submission) -> Path:
    """Return the file of its own name, or the only notebook that there is."""
    found = submission.notebooks()
    own = [path for path in found if path.name == f"{submission.assignment}.ipynb"]
    if len(own or found) != 1:
        raise NotGradable(f"there are {len(found)} notebooks, none called {submission.assignment}.ipynb")
    return (own or found)[0]


def plain(data: dict[str, Any]) -> NotebookNode:
    """Return a notebook with the cells of ``data``: their kind, text and nbgrader's marks."""
    if data.get("nbformat", 4) < 4:
        data = nbformat.convert(nbformat.from_dict(data), 4)
    seen = set[str]()
    cells = [MAKERS[cell["cell_type"]](text(cell["source"]), metadata=marks(cell, seen)) for cell in data["cells"]]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})


def text(source: str | list[str]) -> str:
    """Return a cell's text as valid Unicode: half a surrogate pair becomes a question mark."""
    whole = source if isinstance(source, str) else "".join(source)
    return whole.encode("utf-8", errors="replace").decode()


def marks(cell: dict[str, Any], seen: set[str]) -> dict[str, Any]:
    """Return nbgrader's metadata of a cell, unless it is a copy: its name is then among those ``seen``."""
    found = cell.get("metadata", {}).get("nbgrader", {})
    name = found.get("grade_id") if isinstance(found, dict) else None
    if not isinstance(name, str) or name in seen:
        return {}
    seen.add(name)
    return {"nbgrader": found}


def grade_ids(notebook: NotebookNode) -> set[str]:
    """Return the names of the graded cells."""
    return {str(cell.metadata.nbgrader.get("grade_id")) for cell in notebook.cells if "nbgrader" in cell.metadata}


def refuse_another(ids: set[str], assignment: str, source: Path) -> None:
    """Raise ``NotGradable`` for a notebook with no graded cell of ``assignment``, and say whose cells it has."""
    paths = sources(source)
    own = grade_ids(read_notebook(paths[assignment]))
    if not ids & own:
        others = [name for name, path in paths.items() if ids & grade_ids(read_notebook(path))]
        raise NotGradable(f"this is {others[0]}" if others else f"none of the graded cells of {assignment} are in it")


def moment(words: str) -> datetime:
    """Return the time that ``words`` say; raise ``ValueError`` for another form or no zone: it may be another hour."""
    with suppress(ValueError):
        found = datetime.fromisoformat(re.sub(" ?(UTC|GMT)$", "+00:00", words.strip(), flags=re.I))
        if found.tzinfo:
            return found
    form = "year-month-day, time and zone, as in 2026-01-12 23:59 UTC or 2026-01-12 23:59+01:00"
    raise ValueError(f"{words.strip()!r} may be more than one moment: write {form}")


def printable(words: str) -> str:
    """Return ``words`` in one line without control characters, which a terminal or a spreadsheet would obey."""
    return "".join(c if unicodedata.category(c)[0] != "C" else " " for c in words)

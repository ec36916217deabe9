"""scores.csv, with a row for every student and assignment, whatever happened; and the same for Canvas."""

import csv
import io
from collections.abc import Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from filelock import FileLock

from residual_course.commands.checkout import Refusal
from residual_course.commands.grading.submission import printable, spelled
from residual_course.commands.notebook import UNFINISHED
from residual_course.progress import replace

FIRST = ["student", "assignment", "points", "possible", "late", "state", "confined"]
CANVAS = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
WORDS: dict[str, dict[Any, str]] = {"late": {True: "late", False: "in time"}, "confined": {True: "yes", False: "no"}}
FORMULA = ("=", "+", "-", "@")

Row = dict[str, Any]


def row(student: str, assignment: str, result: dict[str, Any]) -> Row:
    """Return the row of a submission; what could not be graded has no points."""
    parts, late = result.get("parts", {}), result.get("late")
    return {
        "student": student,
        "assignment": assignment,
        "points": sum(parts.values()) if parts else "",
        "possible": result.get("possible", ""),
        "late": WORDS["late"].get(late, late or ""),
        "state": "; ".join(filter(None, [result["state"], result.get("note")])),
        "confined": WORDS["confined"].get(result.get("confined"), ""),
        **parts,
    }


def update(out: Path, rows: Sequence[Row], is_part: bool = False) -> None:
    """Write ``rows`` into the scores of ``out``, where other assignments stay; so do other students of a part."""
    mark = whose if is_part else itemgetter("assignment")
    now = {mark(each) for each in rows}
    with FileLock(out / ".grading" / "scores.lock", timeout=60):
        kept = [each for each in read(out / "scores.csv") if mark(each) not in now]
        write(out, sorted([*kept, *rows], key=whose))


def whose(row: Row) -> tuple[str, str]:
    """Return what a row is about: the assignment, and the student however spelled."""
    return row["assignment"], spelled(safe(row["student"]))


def read(path: Path) -> list[Row]:
    """Return the rows of a file of scores, each with what it says; none where there is no file."""
    rows = cells(path, FIRST) if path.exists() else []
    return [{name: each[name] for name in each if name in FIRST or each[name] != ""} for each in rows]


def cells(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """Return the rows of a CSV file that has ``columns``; raise ``Refusal`` for what a spreadsheet makes of it."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restval="", strict=True)
            rows, names = [each for each in reader if any(each.values())], reader.fieldnames or ()
    except (UnicodeDecodeError, csv.Error) as error:
        raise Refusal(f"{path} cannot be read ({error}): save it as CSV UTF-8, with commas.") from None
    if missing := [name for name in columns if name not in names]:
        raise Refusal(f"{path} has no column called {missing[0]}: save it as CSV UTF-8, with commas.")
    if longer := [each for each in rows if None in each]:
        raise Refusal(f"{path}: the row of {longer[0][columns[0]]!r} is longer than the first line.")
    if torn := [name for each in rows if UNFINISHED.match(name := each[columns[0]])]:
        raise Refusal(f"{path}: a merge left {torn[0]!r} here: mend it, and try again.")
    return rows


def write(out: Path, rows: Sequence[Row]) -> None:
    """Write scores.csv and canvas.csv into ``out``, each whole or not at all."""
    parts = list(dict.fromkeys(key for each in rows for key in each if key not in FIRST))
    replace(out / "scores.csv", table([*FIRST, *parts], rows))
    assignments = list(dict.fromkeys(each["assignment"] for each in rows))
    students: dict[str, Row] = {}
    for each in rows:
        column = "ID" if each["student"].isdigit() else "SIS Login ID"  # Canvas's own number, or a login name
        who = spelled(safe(each["student"]))
        canvas = students.setdefault(who, {"Student": each["student"], column: each["student"]})
        canvas[each["assignment"]] = each["points"]
    replace(out / "canvas.csv", table([*CANVAS, *assignments], students.values()))


def table(columns: Sequence[str], rows: Iterable[Row]) -> str:
    """Return ``rows`` as CSV, safe to print and to open."""
    made = io.StringIO()
    writer = csv.DictWriter(made, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: safe(value) for key, value in each.items()} for each in rows)
    return made.getvalue()


def safe(value: Any) -> Any:
    """Return a text without control characters, and one that a spreadsheet takes for a formula behind a quote."""
    if not isinstance(value, str):
        return value
    words = printable(value.encode("utf-8", errors="replace").decode())
    return f"'{words}" if words.startswith(FORMULA) else words

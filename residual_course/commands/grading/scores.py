"""scores.csv, with a row for every student and assignment, whatever happened; and the same for Canvas."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from residual_course.commands.checkout import Refusal
from residual_course.commands.grading.submission import printable, spelled
from residual_course.progress import replace

FIRST = ["student", "assignment", "points", "possible", "late", "state", "confined"]
CANVAS = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
WORDS: dict[str, dict[Any, str]] = {"late": {True: "late", False: "in time"}, "confined": {True: "yes", False: "no"}}
FORMULA = ("=", "+", "-", "@")

Row = dict[str, Any]


def row(student: str, assignment: str, result: dict[str, Any]) -> Row:
    """Return the row of a submission; what could not be graded has no points."""
    parts = result.get("parts", {})
    return {
        "student": student,
        "assignment": assignment,
        "points": sum(parts.values()) if parts else "",
        "possible": result.get("possible", ""),
        "late": WORDS["late"].get(result.get("late"), ""),
        "state": result["state"],
        "confined": WORDS["confined"].get(result.get("confined"), ""),
        **parts,
    }


def update(out: Path, rows: Sequence[Row]) -> None:
    """Write ``rows`` into the scores of ``out``, where the rows of other assignments stay."""
    now = {each["assignment"] for each in rows}
    write(out, [*(each for each in read(out / "scores.csv") if each["assignment"] not in now), *rows])


def read(path: Path) -> list[Row]:
    """Return the rows of a file of scores, each with what it says; none where there is no file."""
    rows = cells(path, FIRST) if path.exists() else []
    return [{name: each[name] for name in each if name in FIRST or each[name] != ""} for each in rows]


def cells(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """Return the rows of a CSV file that has ``columns``; raise ``Refusal`` for what a spreadsheet makes of it."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restval="", strict=True)
            rows, names = list(reader), reader.fieldnames or ()
    except (UnicodeDecodeError, csv.Error) as error:
        raise Refusal(f"{path} cannot be read ({error}): save it as CSV UTF-8, with commas.") from None
    if missing := [name for name in columns if name not in names]:
        raise Refusal(f"{path} has no column called {missing[0]}: save it as CSV UTF-8, with commas.")
    if longer := [each for each in rows if None in each]:
        raise Refusal(f"{path}: the row of {longer[0][columns[0]]!r} is longer than the first line.")
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


def join(out: Path, folders: Sequence[Path]) -> int:
    """Write the rows of all ``folders`` into ``out`` and return their number.

    Raises:
        Refusal: for a folder without scores, and for two rows of one student and assignment.
    """
    rows: dict[tuple[str, str], Row] = {}
    for folder in folders:
        if not (path := folder / "scores.csv").exists():
            raise Refusal(f"There is no {path}.")
        for each in read(path):
            key = spelled(each["student"]), each["assignment"]
            if key in rows:
                raise Refusal(f"{each['student']} has {key[1]} twice, in {path} and before: leave one of the two out.")
            rows[key] = each
    out.mkdir(parents=True, exist_ok=True)
    write(out, list(rows.values()))
    return len(rows)

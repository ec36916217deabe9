"""scores.csv, with a row for every student and assignment, whatever happened; and the same for Canvas."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from residual_edu.course.checkout import Refusal
from residual_edu.course.grading.submission import printable
from residual_edu.progress import replace

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


def write(out: Path, rows: Sequence[Row]) -> None:
    """Write scores.csv and canvas.csv into ``out``, each whole or not at all."""
    parts = list(dict.fromkeys(key for each in rows for key in each if key not in FIRST))
    replace(out / "scores.csv", table([*FIRST, *parts], rows))
    assignments = list(dict.fromkeys(each["assignment"] for each in rows))
    students: dict[str, Row] = {}
    for each in rows:
        canvas = students.setdefault(each["student"], {"Student": each["student"], "SIS Login ID": each["student"]})
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
        with path.open(newline="", encoding="utf-8") as file:
            for each in csv.DictReader(file):
                key = each["student"], each["assignment"]
                if key in rows:
                    raise Refusal(f"{key[0]} has {key[1]} twice, in {path} and before: leave one of the two out.")
                rows[key] = {name: value for name, value in each.items() if value != ""}
    out.mkdir(parents=True, exist_ok=True)
    write(out, [{**dict.fromkeys(FIRST, ""), **each} for each in rows.values()])
    return len(rows)

"""scores.csv: a row for each submission, written as it is graded; an interrupted run goes on where it stopped."""

import csv
import os
from collections.abc import Sequence
from pathlib import Path

from residual_edu.course.checkout import Refusal
from residual_edu.course.grade.assignment import Assignment
from residual_edu.course.grade.score import Result

FIRST, LAST = 200, 300  # characters kept of what is said about one check: what failed first, and the next step
FORMULA = ("=", "+", "-", "@")  # a spreadsheet reads what begins so as a formula


class Sheet:
    """The rows by submission; ``digest`` is that of the submission and the source that it was graded with."""

    def __init__(self, path: Path, assignment: Assignment) -> None:
        ids = [check.id for check in assignment.checks]
        self.path, self.header = path, ["submission", "points", "of", *ids, "remarks", "digest"]
        self.of = sum(check.points for check in assignment.checks)
        self.rows = {row[0]: row for row in self.read()}
        self.write(list(self.rows))

    def read(self) -> list[list[str]]:
        """Return the whole rows of an earlier run; the last one may have been cut short.

        Raises:
            Refusal: where the file is not of this assignment.
        """
        if not self.path.exists():
            return []
        with self.path.open(encoding="utf-8", newline="") as file:
            header, *rows = list(csv.reader(file)) or [[]]
        if header and header != self.header:
            raise Refusal(f"{self.path} holds something else than these scores; name another file, or move it away.")
        return [row for row in rows if len(row) == len(self.header) and len(row[-1]) in (0, 16)]

    def has(self, submission: str, digest: str) -> bool:
        """Whether this very submission stands here."""
        row = self.rows.get(safe(submission))
        return bool(digest and row and row[-1] == digest)

    def add(self, result: Result) -> None:
        """Add the row of one result to the file."""
        lost = [mark for mark in result.marks if not mark.earned]
        remarks = [f"{mark.check.id}: {remark(mark.said)}" for mark in lost]
        points = [f"{mark.points:g}" for mark in result.marks]
        name, sent = safe(result.submission.path), result.submission
        self.rows[name] = [name, f"{result.points:g}", f"{self.of:g}", *points, " | ".join(remarks), sent.digest]
        with self.path.open("a", encoding="utf-8", newline="") as file:
            csv.writer(file).writerow(self.rows[name])

    def write(self, order: Sequence[str]) -> None:
        """Write the whole file anew, the submissions of ``order`` first; it is never half there."""
        names = dict.fromkeys([*filter(self.rows.__contains__, map(safe, order)), *self.rows])
        part = self.path.with_name(f"{self.path.name}.part")
        with part.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([self.header, *(self.rows[name] for name in names)])
        os.replace(part, self.path)


def remark(said: str) -> str:
    """Return what is said about a check in one line: what failed first, and the end, where the next step stands."""
    text = " ".join(said[max(said.find("not yet:"), 0) :].split())
    return text if len(text) <= FIRST + LAST else f"{text[:FIRST]} ... {text[-LAST:]}"


def safe(name: str) -> str:
    """Return a path that no spreadsheet takes for a formula."""
    return f"./{name}" if name.startswith(FORMULA) else name

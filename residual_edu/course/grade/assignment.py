"""What a source asks and how it is scored: the cells before each exercise, its tests, its points."""

import ast
import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import jupytext
from nbformat import NotebookNode

from residual_edu.course.checkout import Refusal
from residual_edu.course.exercise_cells import check_of, shown, solved, stub, tags


@dataclass(frozen=True)
class Check:
    """A cell of tests: its points are given whole or not at all.

    ``many`` says that right answers may return different values, so that none is compared with the solution's.
    """

    id: str
    points: float
    source: str
    hidden: bool
    many: bool


@dataclass(frozen=True)
class Task:
    """An exercise: the names it defines, its stub and solution, and its tests."""

    id: str
    names: tuple[str, ...]
    stub: str
    solution: str
    checks: list[Check] = field(default_factory=list)


@dataclass(frozen=True)
class Assignment:
    """A source as the grader sees it: ``steps`` are the cells to run, and the ids of tasks where these stand."""

    name: str
    digest: str
    steps: list[dict[str, str]]
    tasks: list[Task]

    @property
    def checks(self) -> list[Check]:
        """All tests in order."""
        return [check for task in self.tasks for check in task.checks]


def read_assignment(source: Path) -> Assignment:
    """Return the assignment that stands at ``source``.

    Raises:
        Refusal: for an exercise that is not whole, tests without points, an id that comes twice, or no exercise.
    """
    text = source.read_text(encoding="utf-8")
    found = Assignment(source.stem, hashlib.sha256(text.encode()).hexdigest(), [], [])
    cells = [cell for cell in jupytext.reads(text, fmt="py:percent").cells if cell.cell_type == "code"]
    try:
        for at, cell in enumerate(cells):
            add(found, cell, cells[at + 1] if at + 1 < len(cells) else None)
        refuse_doubles([task.id for task in found.tasks] + [check.id for check in found.checks])
    except Refusal as refusal:
        raise Refusal(f"{source.name}: {refusal}") from None
    if not found.tasks:
        raise Refusal(f"{source.name} has no exercise to grade.")
    return found


def add(found: Assignment, cell: NotebookNode, below: NotebookNode | None) -> None:
    """Sort one code cell: an exercise, a test of the last one, or a step on the way."""
    if "exercise" in tags(cell):
        check_of(cell, below)
        task = cell.metadata["nbgrader"]["grade_id"]
        found.tasks.append(Task(task, names(solved(cell.source)), stub(cell.source), solved(cell.source)))
        found.steps.append({"task": task})
    elif cell.metadata.get("nbgrader", {}).get("grade") or "hidden-test" in tags(cell):
        if not found.tasks:
            raise Refusal(f"the tests {cell.source.partition(chr(10))[0]!r} stand above the first exercise.")
        found.tasks[-1].checks.append(tests_of(cell))
    else:
        found.steps.append({"source": cell.source})


def tests_of(cell: NotebookNode) -> Check:
    """Return the tests of one cell, or refuse one without an id and points."""
    grader, source = (
        cell.metadata.get("nbgrader", {}),
        "\n".join(line for line in cell.source.split("\n") if not mark(line)),
    )
    if not {"grade_id", "points"} <= set(grader):
        raise Refusal(f"the tests {cell.source.partition(chr(10))[0]!r} have no grade_id and points.")
    hidden = "hidden-test" in tags(cell) or shown(cell.source) != cell.source.rstrip("\n")
    return Check(grader["grade_id"], float(grader["points"]), source, hidden, "many-answers" in tags(cell))


def mark(line: str) -> bool:
    """Whether a line only marks hidden tests."""
    return line.strip() in ("### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS")


def names(source: str) -> tuple[str, ...]:
    """Return the names that the statements of ``source`` define at the top."""
    found: list[str] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign):
            found += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return tuple(found)


def refuse_doubles(ids: list[str]) -> None:
    """Raise ``Refusal`` where a grade_id comes twice."""
    double = next((each for each in ids if ids.count(each) > 1), None)
    if double:
        raise Refusal(f"the grade_id {double!r} comes twice.")

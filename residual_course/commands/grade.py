"""``residual-edu grade``: nbgrader's autograde and feedback for all submissions, each kernel shut in by bubblewrap."""

import argparse
import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

from filelock import FileLock, Timeout
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from residual_course.commands.checkout import Refusal
from residual_course.commands.grading import confine, scores
from residual_course.commands.grading.run import Grader, stored
from residual_course.commands.grading.submission import Submission, find, moment, printable, spelled
from residual_course.progress import replace

NO_NBGRADER = (
    "nbgrader is not installed here: `python course.py grade ...` makes an environment for it, "
    "or pip install -e '.[grading]' into one of your own."
)


def run(argv: Sequence[str]) -> int:
    """Grade what was handed in; return 1 where a submission could not be graded."""
    parser = argparse.ArgumentParser(
        prog="residual-edu grade",
        description="Grade OUT/submitted/STUDENT/ASSIGNMENT/*.ipynb by nbgrader and write OUT/scores.csv, with a row "
        "for every student of OUT/submitted and OUT/students.csv. Stopped, it goes on where it was.",
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="the course folder that `assignment` wrote")
    parser.add_argument("assignments", nargs="*", metavar="ASSIGNMENT", help="all that was handed in if none is given")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="how many at a time (2)")
    parser.add_argument("--seconds", type=float, default=900, metavar="N", help="how long one may take (900)")
    parser.add_argument(
        "--due",
        action="append",
        default=[],
        metavar="ASSIGNMENT=TIME",
        help="as 'hw_00_01=2026-12-01 23:59 UTC'; kept for later runs",
    )
    parser.add_argument("--unconfined", action="store_true", help="run kernels as this user; only in a container")
    parser.add_argument("--students", metavar="WHICH", help="1-50, places in the order of names, or ada,bob; else all")
    given = parser.parse_intermixed_args(argv)
    try:
        return grade_all(given)
    except OSError as error:
        raise Refusal(
            f"{error.filename or given.out}: {error.strerror or error}; what was graded so far is kept."
        ) from None


def grade_all(given: argparse.Namespace) -> int:
    """Grade, with no other command on the same students, and write the scores."""
    out = given.out.resolve()
    refuse_what_is_missing(out, given.assignments)
    (out / ".grading").mkdir(exist_ok=True, mode=0o700)
    try:
        with FileLock(out / ".grading" / f"{quote(given.students or '', safe='')[:99]}.lock", timeout=0):
            return grade_alone(out, given)
    except Timeout:
        raise Refusal(f"Another `residual-edu grade` works on {out}: wait for it, or stop it.") from None


def refuse_what_is_missing(out: Path, assignments: Sequence[str]) -> None:
    """Raise ``Refusal`` where there is nothing to grade, or nothing to grade it with."""
    if not find_spec("nbgrader"):
        raise Refusal(NO_NBGRADER)
    if not (out / "nbgrader_config.py").exists():
        raise Refusal(f"{out} is no course folder: `residual-edu assignment {out}` writes one.")
    for name in assignments:
        if not (out / "source" / name / f"{name}.ipynb").exists():
            raise Refusal(f"There is no assignment {name!r} in {out / 'source'}.")


def grade_alone(out: Path, given: argparse.Namespace) -> int:
    """Grade all submissions and write the scores, those of an interrupted run too."""
    if not given.unconfined:
        with tempfile.TemporaryDirectory(prefix="k") as folder:
            confine.check_confinement(Path(folder))
    scores.read(out / "scores.csv")  # refused now, where it cannot be read when all is graded
    grader = Grader(out, not given.unconfined, given.seconds, due(out, given.due))
    every = part(find(out, given.assignments, roster(out / "students.csv")), given.students)
    if not every:
        raise Refusal(f"Nobody has handed in: {out / 'submitted'} is where STUDENT/ASSIGNMENT/ASSIGNMENT.ipynb belong.")
    known = [each for each in every if grader.source(each.assignment).exists()]
    for name in dict.fromkeys(each.assignment for each in known):
        grader.release(name)
    results = {each: {"state": "could not be graded: there is no such assignment"} for each in every}
    try:
        for each, result in gathered(grader, known, given.jobs):
            results[each] = result
    except KeyboardInterrupt:
        print("\nStopped. Run the same command again to go on.", flush=True)
        return 130
    rows = [scores.row(each.student, each.assignment, result) for each, result in results.items()]
    scores.update(out, rows, bool(given.students))
    failed = sum(result["state"].startswith("could not") for result in results.values())
    print(f"{len(results)} rows in {out / 'scores.csv'}, {failed} could not be graded; feedback in {out / 'feedback'}")
    return int(failed > 0)


def part(every: Sequence[Submission], which: str | None) -> list[Submission]:
    """Return the submissions of some students: "26-50" are places in the order of names, "ada,bob" are names."""
    if which is None:
        return list(every)
    students = sorted({spelled(each.student) for each in every})
    places = re.fullmatch(r"([1-9]\d*)-(\d+)", which)
    chosen = students[int(places[1]) - 1 : int(places[2])] if places else [*map(spelled, which.split(","))]
    if not chosen or not {*chosen} <= {*students}:
        raise Refusal(f"--students {which!r} is neither places, as in 1-{len(students)}, nor names of students here.")
    return [each for each in every if spelled(each.student) in chosen]


def gathered(
    grader: Grader, submissions: Sequence[Submission], jobs: int
) -> Iterator[tuple[Submission, dict[str, Any]]]:
    """Yield each submission with what it came to, as they are done, under a line of progress."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    console = Console()
    with ThreadPoolExecutor(max(1, jobs)) as pool, Progress(*columns, console=console) as bar:
        task = bar.add_task("graded", total=len(submissions))
        futures = {pool.submit(grader.grade, each): each for each in submissions}
        try:
            for future in as_completed(futures):
                each, result = futures[future], future.result()
                name = printable(each.student)
                bar.update(task, advance=1)
                console.print(f"{name}, {each.assignment}: {line(result)}", markup=False, highlight=False)
                yield each, result
        except BaseException:
            grader.stopped.set()
            pool.shutdown(cancel_futures=True)
            raise


def line(result: dict[str, Any]) -> str:
    """Return what a submission came to in a few words."""
    parts = result.get("parts")
    return printable(f"{sum(parts.values()):g} of {result['possible']:g}" if parts else result["state"])


def due(out: Path, words: Sequence[str]) -> dict[str, str]:
    """Return the last time of each assignment: what earlier runs were told, and now this one.

    Raises:
        Refusal: for an unknown assignment, or what is no time.
    """
    told = stored(out / ".grading" / "due.json")
    for word in words:
        name, _, time = word.partition("=")
        if not (out / "source" / name / f"{name}.ipynb").exists():
            raise Refusal(f"--due {word!r}: there is no assignment {name!r} in {out / 'source'}.")
        try:
            told[name] = str(moment(time))
        except ValueError as error:
            raise Refusal(f"--due {word!r}: {error}.") from None
    replace(out / ".grading" / "due.json", json.dumps(told))
    return told


def roster(path: Path) -> list[str]:
    """Return the students of a list with the column id, as nbgrader has it; none where there is no list."""
    if not path.exists():
        return []
    return [row["id"] for row in scores.cells(path, ["id"]) if row["id"].strip()]

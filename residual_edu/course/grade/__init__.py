"""``residual-edu grade``: score a class's submissions, each answer shut into a process of its own.

Of a submission only the answers are taken, by their grade_id; the rest is the source's. A source's own cells run once,
and each answer is defined and tested in a fork of that process: limited in time, memory, files and system calls, and
killed with its group. It may say of itself what it likes: points are given where what it returned is, number by number,
what the source's solution returned in the same place. All that can go wrong costs its own points and nothing else.

The hidden tests stand in the memory of the process while they run. A student who reads them there learns their inputs,
and has still to return the right values.
"""

import argparse
import sys
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from residual_edu.course.checkout import Refusal, find_root, with_homework
from residual_edu.course.grade.assignment import Assignment, read_assignment
from residual_edu.course.grade.feedback import write_feedback
from residual_edu.course.grade.score import Result, calibrate, score
from residual_edu.course.grade.sheet import Sheet
from residual_edu.course.grade.submission import Submission, read_submission
from residual_edu.course.grade.workers import Limits, Workers

UNCONFINED = (
    "Answers are not fully shut in on this system: {}. Grade in a container or on another machine if that matters."
)


def run(argv: Sequence[str]) -> int:
    """Grade what ``argv`` names; return 0 when every submission has its row, 130 when stopped on the way."""
    parser = argparse.ArgumentParser(prog="residual-edu grade", description="Grade submissions of one lesson.")
    parser.add_argument("lesson", metavar="LESSON", help="02, or hw_00_01, or the path of a source (.py) elsewhere")
    parser.add_argument(
        "submissions", nargs="+", metavar="SUBMISSION", help="a notebook, or - for a path a line on stdin"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="SCORES.csv", help="rows; feedback stands beside it")
    parser.add_argument("--jobs", type=positive, default=1, metavar="N", help="answers at a time (1)")
    parser.add_argument("--seconds", type=positive, default=30, metavar="S", help="of work for one answer (30)")
    parser.add_argument("--megabytes", type=positive, default=2000, metavar="M", help="of memory for one answer (2000)")
    given = parser.parse_args(argv)
    if sys.platform != "linux":
        raise Refusal("grade runs on Linux, whose limits it shuts answers in with; elsewhere run it in a container.")
    source, paths = source_of(given.lesson), list(dict.fromkeys(listed(given.submissions)))
    limits = Limits(given.seconds, given.megabytes, secrets(source, given.out, paths))
    try:
        grade(read_assignment(source), source.parent, paths, given.out, given.jobs, limits)
    except KeyboardInterrupt:
        print("Stopped. Run the same command again to go on.", file=sys.stderr)
        return 130
    return 0


def positive(text: str) -> int:
    """Return ``text`` as a whole number above 0, for argparse."""
    if int(text) < 1:
        raise ValueError
    return int(text)


def source_of(lesson: str) -> Path:
    """Return the source called ``lesson``: the path of one, or the lesson or homework that it names.

    Raises:
        Refusal: where it names none, or more than one.
    """
    if lesson.endswith(".py") and Path(lesson).is_file():
        return Path(lesson).resolve()
    found = with_homework(find_root(), [lesson])
    if len(found) > 1:
        raise Refusal(f"{lesson!r} begins {', '.join(source.stem for source in found)}; name one.")
    return found[0]


def listed(submissions: Sequence[str]) -> Iterable[str]:
    """Yield the paths, those of standard input in place of ``-``."""
    for each in submissions:
        yield from (line.strip() for line in sys.stdin if line.strip()) if each == "-" else [each]


def secrets(source: Path, out: Path, paths: Sequence[str]) -> list[Path]:
    """Return the folders of the grader: where the source, the scores and the submissions stand."""
    checkout = [folder for folder in source.parents if (folder / "notebooks" / "source").is_dir()]
    return [source.parent, *checkout, out.resolve().parent, *{Path(path).resolve().parent for path in paths}]


def grade(assignment: Assignment, folder: Path, paths: Sequence[str], out: Path, jobs: int, limits: Limits) -> None:
    """Grade those of ``paths`` whose row is not there yet, with a bar of progress, and put the rows in order."""
    sheet = Sheet(out, assignment)
    every = [read_submission(path, assignment) for path in paths]
    waiting = [each for each in every if not sheet.has(each.path, each.digest)]
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    progress = Progress(*columns, console=Console(stderr=True))
    with closing(results(assignment, folder, waiting, jobs, limits)) as found, progress:
        task = progress.add_task(assignment.name, total=len(every), completed=len(every) - len(waiting))
        for result in found:
            write_feedback(result, assignment, out.with_name(f"{out.stem}-feedback"))
            sheet.add(result)
            progress.advance(task)
    sheet.write(paths)


def results(
    assignment: Assignment, folder: Path, waiting: Sequence[Submission], jobs: int, limits: Limits
) -> Generator[Result, None, None]:
    """Yield the result of each submission as it is there; when this is left, no process is."""
    if not waiting:
        return
    with Workers(assignment, min(jobs, len(waiting)), limits, folder) as workers:
        if workers.missing:
            print(UNCONFINED.format(workers.missing), file=sys.stderr)
        rights = calibrate(assignment, workers.ask)
        with ThreadPoolExecutor(jobs) as pool:
            futures = [pool.submit(score, assignment, each, rights, workers.ask) for each in waiting]
            try:
                for future in as_completed(futures):
                    yield future.result()
            finally:
                workers.close()
                pool.shutdown(cancel_futures=True)

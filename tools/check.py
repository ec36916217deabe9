"""``residual-edu check --try FILE``: send right and wrong answers through their exercises' checks.

For whoever writes an exercise: the file registers answers with ``residual_course.checking.tries``.
"""

import argparse
import runpy
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from residual_course.checking.check import find
from residual_course.checking.judge import judge
from residual_course.checking.session import ATTEMPTS
from residual_course.checking.tries import TRIES, Try
from residual_course.commands.checkout import Refusal
from residual_edu.errors import InvalidInput

COLUMNS = "exercise", "kind", "what", "accepted", ""


def run(argv: Sequence[str]) -> int:
    """Print a table of the answers in the files named in ``argv``; return 1 where one is not judged as it says."""
    parser = argparse.ArgumentParser(prog="residual-edu check", description="Try answers on their exercises' checks.")
    parser.add_argument("--try", dest="files", nargs="+", type=Path, required=True, metavar="FILE", help="answers")
    parser.add_argument("--only", nargs="+", metavar="EXERCISE", help="the exercises to try; all where none is given")
    parser.add_argument("--reports", action="store_true", help="print what each check prints, too")
    given = parser.parse_args(argv)
    tries = [one for one in read(given.files) if not given.only or one.exercise in given.only]
    table, as_expected = Table(*COLUMNS, title=f"{len(tries)} answers"), 0
    console = Console()
    for one in tries:
        accepted, report = judged(one)
        as_expected += accepted == one.is_right
        mark = "" if accepted == one.is_right else "REFUSED" if one.is_right else "PASSES"
        table.add_row(one.exercise, "right" if one.is_right else "wrong", one.what, "yes" if accepted else "no", mark)
        if given.reports:
            console.rule(f"{one.exercise}: {one.what}{mark and f' - {mark}'}", align="left")
            console.print(report, markup=False, highlight=False, soft_wrap=True)
    console.print(table)
    console.print(f"{as_expected} of {len(tries)} are judged as their file says.")
    return int(as_expected < len(tries))


def read(files: Sequence[Path]) -> list[Try]:
    """Return the answers that these files register, in their order.

    Raises:
        Refusal: for a file that is not there, and for one without answers.
    """
    TRIES.clear()
    for file in files:
        before = len(TRIES)
        try:
            runpy.run_path(str(file), run_name=file.stem)
        except FileNotFoundError:
            raise Refusal(f"There is no file {file}.") from None
        if len(TRIES) == before:
            raise Refusal(f"{file} registers no answer; decorate them with `right` or `wrong` of {Try.__module__}.")
    return list(TRIES)


def judged(one: Try) -> tuple[bool, str]:
    """Return whether the check accepts an answer, and its report in a session that knows of no other attempt.

    Raises:
        Refusal: for an exercise that there is not.
    """
    ATTEMPTS.clear()
    try:
        judgement = judge(one.answer, one.exercise, find(one.exercise))
    except InvalidInput as error:
        raise Refusal(str(error)) from None
    return judgement.unmet == 0, judgement.text

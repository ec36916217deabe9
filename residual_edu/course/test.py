"""``residual-edu test``: the checks, in order, each with its seconds, whatever the ones before it said."""

import argparse
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from rich.console import Console
from rich.table import Table

from residual_edu.course import running, steps
from residual_edu.course.changed import why_none
from residual_edu.course.checkout import Refusal, find_root


@dataclass(frozen=True)
class Outcome:
    """What a step came to; without a code it was left out, for want of time."""

    step: str
    code: int | None
    skipped: int
    seconds: float

    @property
    def failed(self) -> bool:
        """Whether it failed; where CI is set nobody reads why a test was skipped, so there a skip is a failure."""
        return self.code not in (0, None) or (self.skipped > 0 and os.environ.get("CI", "") not in ("", "0", "false"))

    @property
    def verdict(self) -> str:
        """The outcome in words."""
        if self.code is None:
            return "left out: no time"
        skips = f", {self.skipped} skipped" if self.skipped else ""
        return ("failed" if self.failed else "passed") + skips

    def __str__(self) -> str:
        return f"{self.step} {self.verdict} in {self.seconds:.1f} s"


def run(argv: Sequence[str]) -> int:
    """Run the steps of the form asked for, or those named with ``--only``; return 1 if any failed."""
    parser = argparse.ArgumentParser(
        prog="residual-edu test", description="Run what an ordinary change can break: about 12 minutes on two cores."
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--all", action="store_true", help="run every check: about 40 minutes")
    form.add_argument("--fast", action="store_true", help="style, types, unit tests of what changed: about a minute")
    names = list(steps.SECONDS)
    parser.add_argument("--only", action="append", metavar="STEP", choices=names, help=f"one of {', '.join(names)}")
    parser.add_argument("--minutes", type=float, default=math.inf, metavar="N", help="begin no step that ends later")
    given, root = parser.parse_args(argv), find_root()
    every = steps.everything(root) if given.all else steps.fast(root) if given.fast else steps.usual()
    chosen = [step for step in every if not given.only or step.name in given.only]
    remark = why_none(root) if given.fast and "units" not in {step.name for step in every} else ""
    if not chosen:
        raise Refusal(remark)
    try:
        outcomes = perform_all(chosen, root, 60 * given.minutes)
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130
    failed, out = (sum(each) for each in zip(*((one.failed, one.code is None) for one in outcomes), strict=True))
    closing = f"{len(outcomes) - failed - out} passed, {failed} failed" + (f", {out} skipped" if out else "")
    print(*filter(None, [remark]), closing, sep="\n", flush=True)
    return int(failed > 0)


def perform_all(chosen: Sequence[steps.Step], root: Path, seconds: float = math.inf) -> list[Outcome]:
    """Run the steps in order, those on one core two at a time, and print what they came to and how long it took.

    A step is left out where, at the pace of this run, it would not end within ``seconds``.
    """
    console, forecast, outcomes = Console(), running.Forecast([step.seconds for step in chosen]), []
    with two_at_a_time([step for step in chosen if step.on_one_core], root) as begun:
        for step in chosen:
            if step.name in begun or forecast.passed() + forecast.pace * step.seconds <= seconds:
                outcomes.append(perform(step, root, console, forecast, begun.get(step.name)))
            else:
                outcomes.append(Outcome(step.name, None, 0, 0.0))
                forecast.leave_out()
            forecast.advance()
            left = f"; {running.words(forecast.left())}" if len(outcomes) < len(chosen) else ""
            console.print(f"{outcomes[-1]}{left}\n", highlight=False)
    console.print(summary(outcomes, forecast.passed()))
    return outcomes


@contextmanager
def two_at_a_time(some: Sequence[steps.Step], root: Path) -> Iterator[dict[str, Future[running.Captured]]]:
    """Begin these steps, and yield by name what they will come to; none begins any more after Ctrl-C."""
    two = ThreadPoolExecutor(2)
    try:
        yield {step.name: two.submit(running.captured, words(step), root) for step in some}
    finally:
        two.shutdown(cancel_futures=True)


def words(step: steps.Step, *more: str) -> list[str]:
    """Return the command of a step as it is run."""
    return [sys.executable, "-m", *step.command, *more]


def perform(
    step: steps.Step, root: Path, console: Console, forecast: running.Forecast, begun: Future[running.Captured] | None
) -> Outcome:
    """Run one step in ``root`` with its output shown as it comes, or show that of a step that has ``begun``."""
    console.rule(f"{step.name}: {' '.join(step.command)}", align="left")
    if begun is not None:
        code, said, seconds = begun.result()
        console.out(said, end="", highlight=False)
        return Outcome(step.name, code, 0, seconds)
    start = time.monotonic()
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        code = running.run(words(step, f"--junitxml={report}"), root, console, forecast)
        return Outcome(step.name, code, skips(report), time.monotonic() - start)


def skips(report: Path) -> int:
    """Count the skipped tests in a JUnit report; none where there is no report."""
    return len(ElementTree.parse(report).findall(".//skipped")) if report.exists() else 0


def summary(outcomes: Sequence[Outcome], seconds: float) -> Table:
    """Return the closing table: step, outcome and seconds, and how long all of it took."""
    table = Table("step", "outcome", "seconds", title="residual_edu", caption=f"{seconds / 60:.1f} minutes")
    for outcome in outcomes:
        style = "red" if outcome.failed else "green" if outcome.code == 0 else "yellow"
        table.add_row(outcome.step, outcome.verdict, f"{outcome.seconds:.1f}", style=style)
    return table

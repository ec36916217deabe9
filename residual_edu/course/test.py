"""``residual-edu test``: the checks, in order, each with its seconds, whatever the ones before it said."""

import argparse
import math
import os
import sys
import time
from collections.abc import Sequence
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


def run(argv: Sequence[str]) -> int:
    """Run the steps of the form asked for, or those named with ``--only``; return 1 if any failed."""
    parser = argparse.ArgumentParser(
        prog="residual-edu test", description="Run what an ordinary change can break: about 15 minutes on two cores."
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--all", action="store_true", help="run every check: 40 to 60 minutes")
    form.add_argument("--fast", action="store_true", help="style, types, unit tests of what changed: about a minute")
    names = [step.name for step in steps.everything()]
    parser.add_argument("--only", action="append", metavar="STEP", choices=names, help=f"one of {', '.join(names)}")
    parser.add_argument("--minutes", type=float, default=math.inf, metavar="N", help="begin no step that ends later")
    given, root = parser.parse_args(argv), find_root()
    every = steps.everything() if given.all else steps.fast(root) if given.fast else steps.usual()
    chosen = [step for step in every if step.name in (given.only or names)]
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
    """Run the steps one after the other, and print what they came to and how long it took.

    A step is left out where, at the pace of this run, it would not end within ``seconds``.
    """
    console, forecast, outcomes = Console(), running.Forecast([step.seconds for step in chosen]), []
    for step in chosen:
        if forecast.passed() + forecast.pace * step.seconds <= seconds:
            outcomes.append(perform(step, root, console, forecast))
        else:
            outcomes.append(Outcome(step.name, None, 0, 0.0))
            forecast.leave_out()
        forecast.advance()
        left = f"; {running.words(forecast.left())}" if len(outcomes) < len(chosen) else ""
        console.print(f"{step.name} {outcomes[-1].verdict} in {outcomes[-1].seconds:.1f} s{left}\n", highlight=False)
    console.print(summary(outcomes))
    return outcomes


def perform(step: steps.Step, root: Path, console: Console, forecast: running.Forecast) -> Outcome:
    """Run one step in ``root``, with its output shown as it comes."""
    console.rule(f"{step.name}: {' '.join(step.command)}", align="left")
    start = time.monotonic()
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        junit = [f"--junitxml={report}"] if step.command[0] == "pytest" else []
        code = running.run([sys.executable, "-m", *step.command, *junit], root, console, forecast)
        return Outcome(step.name, code, skips(report), time.monotonic() - start)


def skips(report: Path) -> int:
    """Count the skipped tests in a JUnit report; none where there is no report."""
    return len(ElementTree.parse(report).findall(".//skipped")) if report.exists() else 0


def summary(outcomes: Sequence[Outcome]) -> Table:
    """Return the closing table: step, outcome, seconds, and their sum."""
    whole = sum(outcome.seconds for outcome in outcomes)
    table = Table("step", "outcome", "seconds", title="residual_edu", caption=f"{whole / 60:.1f} minutes")
    for outcome in outcomes:
        style = "red" if outcome.failed else "green" if outcome.code == 0 else "yellow"
        table.add_row(outcome.step, outcome.verdict, f"{outcome.seconds:.1f}", style=style)
    return table

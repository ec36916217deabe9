"""``residual-edu test``: every check, in order, each with its seconds, whatever the ones before it said."""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from rich.console import Console
from rich.table import Table

from residual_edu.course.checkout import find_root

COURSE = ["residual_edu.course"]
NBVAL = ["-p", "residual_edu.course.nbval_plugin", "--nbval", "--nbval-current-env", "--nbval-cell-timeout=120"]
# Not for the browser, whose delays are read off the clock; lessons are held to processor time.
TWO_AT_A_TIME = ["-n2", "--dist=loadfile"]
# The name of each step and the module that it runs.
STEPS = {
    "ruff": ["ruff", "check"],
    "format": ["ruff", "format", "--check"],
    "types": ["mypy"],
    "promote": [*COURSE, "promote", "--check"],
    "build": [*COURSE, "build", "--check"],
    "lessons": [*COURSE, "lint"],
    "units": ["pytest", "-q", "-rs", "tests", "--ignore=tests/browser", *TWO_AT_A_TIME],
    "notebooks": ["pytest", "-q", "-rs", *NBVAL, "notebooks", *TWO_AT_A_TIME],
    "browser": ["pytest", "-q", "-rs", "tests/browser"],
}


@dataclass(frozen=True)
class Outcome:
    """What a step came to."""

    step: str
    code: int
    skipped: int
    seconds: float

    @property
    def failed(self) -> bool:
        """Whether it failed; where CI is set nobody reads why a test was skipped, so there a skip is a failure."""
        return self.code != 0 or (self.skipped > 0 and os.environ.get("CI", "") not in ("", "0", "false"))

    @property
    def verdict(self) -> str:
        """The outcome in words."""
        skips = f", {self.skipped} skipped" if self.skipped else ""
        return ("failed" if self.failed else "passed") + skips


def run(argv: Sequence[str]) -> int:
    """Run the steps, or those named with ``--only``; return 1 if any failed."""
    parser = argparse.ArgumentParser(prog="residual-edu test", description="Run every check, in this order.")
    parser.add_argument("--only", action="append", choices=STEPS, metavar="STEP", help=f"one of {', '.join(STEPS)}")
    chosen = parser.parse_args(argv).only or STEPS
    console, root = Console(), find_root()
    try:
        outcomes = [perform(step, root, console) for step in STEPS if step in chosen]
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130
    console.print(summary(outcomes))
    failed = sum(outcome.failed for outcome in outcomes)
    print(f"{len(outcomes) - failed} passed, {failed} failed", flush=True)
    return int(failed > 0)


def perform(step: str, root: Path, console: Console) -> Outcome:
    """Run one step in ``root``, on one thread, with its output shown as it comes."""
    console.rule(f"{step}: {' '.join(STEPS[step])}", align="left")
    start = time.monotonic()
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        junit = [f"--junitxml={report}"] if STEPS[step][0] == "pytest" else []
        code = call([sys.executable, "-m", *STEPS[step], *junit], root)
        outcome = Outcome(step, code, skips(report), time.monotonic() - start)
    console.print(f"{step} {outcome.verdict} in {outcome.seconds:.1f} s\n", highlight=False)
    return outcome


def call(command: Sequence[str], root: Path) -> int:
    """Return the exit code of ``command``. Ctrl-C reaches it too, and it is left the time to clean up after itself."""
    process = subprocess.Popen(command, cwd=root, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.wait()
        raise


def skips(report: Path) -> int:
    """Count the skipped tests in a JUnit report; none where there is no report."""
    return len(ElementTree.parse(report).findall(".//skipped")) if report.exists() else 0


def summary(outcomes: Sequence[Outcome]) -> Table:
    """Return the closing table: step, outcome, seconds."""
    table = Table("step", "outcome", "seconds", title="residual_edu")
    for outcome in outcomes:
        style = "red" if outcome.failed else "green"
        table.add_row(outcome.step, outcome.verdict, f"{outcome.seconds:.1f}", style=style)
    return table

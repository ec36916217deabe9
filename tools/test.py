"""``residual-edu test``: the checks, in order, each with its seconds, whatever the ones before it said."""

import argparse
import os
import subprocess
import sys
import time
import venv
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from xml.etree import ElementTree

from rich.console import Console
from rich.table import Table

from residual_course.commands.checkout import find_root

COURSE = ["residual_course"]
PYTEST = ["pytest", "-q", "-rs", "-n2", "--no-loadscope-reorder"]  # files in their order: the longest would come last
NBVAL = ["-p", "tools.nbval_plugin", "--nbval", "--nbval-current-env", "--nbval-cell-timeout=600"]
STEPS = {
    "ruff": ["ruff", "check"],
    "format": ["ruff", "format", "--check"],
    "types": ["mypy"],
    "promote": [*COURSE, "promote", "--check"],
    "build": [*COURSE, "build", "--check"],
    "lessons": [*COURSE, "lint"],
    "units": [*PYTEST, "--dist=loadgroup", "tests", "--ignore=tests/browser"],  # groups: tests/conftest.py
    "notebooks": [*PYTEST, "--dist=loadfile", *NBVAL, "notebooks"],
    "browser": [*PYTEST, "--dist=loadfile", "tests/browser"],
}
USUAL = {
    "units": ["-m", "not slow"],  # they run each homework with its solutions
    "browser": ["-m", "not slow"],
    "notebooks": ["-m", "not slow", "--ignore-glob=*/investigations/*", "--ignore-glob=*/homework/*"],
}
PATIENT = ["--timeout=1800"]  # a test that takes a minute takes many on a busy machine
# What the library's tests need besides a torch of another version; xdist's groups are read up to pytest 9.1.
BESIDES = ["numpy>=2.0", "jaxtyping>=0.3.2", "pytest<9.2", "pytest-xdist", "pytest-timeout", "beartype"]
# One thread, no learner's file, claims that raise where they do not hold, and nothing compiled anew by each process.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "RESIDUAL_EDU_STRICT": "1",
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "",
}


class Outcome(NamedTuple):
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
        return ("failed" if self.failed else "passed") + (f", {self.skipped} skipped" if self.skipped else "")


def run(argv: Sequence[str]) -> int:
    """Run all steps, or those named with ``--only``; return 1 if any failed."""
    parser = argparse.ArgumentParser(prog="residual-edu test", description="Check the library and the lessons.")
    parser.add_argument("--all", action="store_true", help="every check, those that take minutes too")
    parser.add_argument("--only", action="append", metavar="STEP", choices=STEPS, help=f"one of {', '.join(STEPS)}")
    parser.add_argument("--torch", metavar="2.6", help="the library's tests alone, with this torch (GB are downloaded)")
    given, root, console = parser.parse_args(argv), find_root(), Console()
    if given.torch:
        return with_torch(given.torch, root)
    outcomes = []
    try:
        for step, command in STEPS.items():
            if not given.only or step in given.only:
                more = (PATIENT if command[0] == "pytest" else []) if given.all else USUAL.get(step, [])
                console.rule(f"{step}: {' '.join([*command, *more])}", align="left")
                outcomes.append(perform(step, [*command, *more], root))
                console.print(f"{step} {outcomes[-1].verdict} in {outcomes[-1].seconds:.1f} s\n", highlight=False)
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130
    console.print(summary(outcomes))
    failed = sum(outcome.failed for outcome in outcomes)
    print(f"{len(outcomes) - failed} passed, {failed} failed", flush=True)
    return int(failed > 0)


def with_torch(version: str, root: Path) -> int:
    """Run the library's tests in an environment of their own with this version of torch; return pytest's code."""
    folder = root / f".venv-torch-{version}"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", f"torch=={version}.*", *BESIDES], check=True)
    words = ["-m", *PYTEST, "--dist=loadgroup", "-m", "not slow", "tests/library"]
    return subprocess.call([python, *words], cwd=root, env={**os.environ, **ENVIRONMENT})


def perform(step: str, command: Sequence[str], root: Path) -> Outcome:
    """Run one step in ``root``; at Ctrl-C, which reaches it too, it may clean up."""
    start = time.monotonic()
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        words = [sys.executable, "-m", *command, *([f"--junitxml={report}"] if command[0] == "pytest" else [])]
        with subprocess.Popen(words, cwd=root, env={**os.environ, **ENVIRONMENT}) as process:
            try:
                code = process.wait()
            except KeyboardInterrupt:
                process.wait()
                raise
        skipped = len(ElementTree.parse(report).findall(".//skipped")) if report.exists() else 0
    return Outcome(step, code, skipped, time.monotonic() - start)


def summary(outcomes: Sequence[Outcome]) -> Table:
    """Return the closing table: step, outcome and seconds, and how long all of it took."""
    minutes = sum(outcome.seconds for outcome in outcomes) / 60
    table = Table("step", "outcome", "seconds", title="residual_edu", caption=f"{minutes:.1f} minutes")
    for outcome in outcomes:
        row = outcome.step, outcome.verdict, f"{outcome.seconds:.1f}"
        table.add_row(*row, style="red" if outcome.failed else "green")
    return table

"""Run a command with its lines shown as they come and, on a terminal, a line below that says how long it will take."""

import os
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task
from rich.text import Text

PERCENT = re.compile(r"\[ *(\d+)%\]$")  # what pytest writes at the end of a line
# One thread, no learner's file, and claims that raise where they do not hold.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "RESIDUAL_EDU_STRICT": "1", "PYTHONUNBUFFERED": "1"}
ALL_IT_SAYS: dict[str, Any] = {
    "stdout": subprocess.PIPE,
    "stderr": subprocess.STDOUT,
    "encoding": "utf-8",
    "errors": "replace",
}
ENOUGH = 100  # seconds of work after which this machine's pace counts


class Forecast:
    """How much time is left, from what each step usually takes and from the pace of this run."""

    def __init__(self, usual: Sequence[int]) -> None:
        self.usual, self.done, self.start, self.began = list(usual), 0, time.monotonic(), time.monotonic()
        self.share = 0.0  # of the current step

    def passed(self) -> float:
        """Return the seconds since the first step began."""
        return time.monotonic() - self.start

    @property
    def pace(self) -> float:
        """How much slower than usual the finished steps were; 1 as long as they say little."""
        expected = sum(self.usual[: self.done])
        return (self.began - self.start) / expected if expected >= ENOUGH else 1.0

    def left(self) -> float:
        """Return the seconds that the current step and those after it will take."""
        passed = time.monotonic() - self.began
        whole = self.usual[self.done] * self.pace if self.done < len(self.usual) else 0.0
        current = passed * (1 / self.share - 1) if self.share > 0.1 else max(whole - passed, 0.05 * whole)
        return current + self.pace * sum(self.usual[self.done + 1 :])

    def leave_out(self) -> None:
        """Count no time for the current step."""
        self.usual[self.done] = 0

    def advance(self) -> None:
        """Go on to the next step."""
        self.done, self.began, self.share = self.done + 1, time.monotonic(), 0.0


class TimeLeft(ProgressColumn):
    """Shows a forecast, looked at anew each second."""

    def __init__(self, forecast: Forecast) -> None:
        super().__init__()
        self.forecast = forecast

    def render(self, task: Task) -> Text:
        """Return the forecast in words."""
        return Text(words(self.forecast.left()), style="dim")


def run(command: Sequence[str], folder: Path, console: Console, forecast: Forecast) -> int:
    """Run ``command`` in ``folder`` and return its exit code; at Ctrl-C, which reaches it too, it may clean up."""
    bar = Progress(TimeLeft(forecast), BarColumn(), console=console, transient=True, disable=not console.is_terminal)
    with subprocess.Popen(command, cwd=folder, env={**os.environ, **ENVIRONMENT}, **ALL_IT_SAYS) as process, bar:
        task = bar.add_task("", total=1)
        try:
            for line in process.stdout or ():
                console.out(line.rstrip("\n"), highlight=False)
                if found := PERCENT.search(line.rstrip()):
                    forecast.share = int(found[1]) / 100
                    bar.update(task, completed=forecast.share)
            return process.wait()
        except KeyboardInterrupt:
            process.wait()
            raise


class Captured(NamedTuple):
    """What a command came to: its exit code, what it printed, and the seconds that it took."""

    code: int
    said: str
    seconds: float


def captured(command: Sequence[str], folder: Path) -> Captured:
    """Run ``command`` in ``folder`` to its end, beside something else."""
    start = time.monotonic()
    done = subprocess.run(command, cwd=folder, env={**os.environ, **ENVIRONMENT}, **ALL_IT_SAYS)
    return Captured(done.returncode, done.stdout, time.monotonic() - start)


def words(seconds: float) -> str:
    """Return a length of time as a person says it."""
    return f"about {max(seconds / 60, 1):.0f} min left" if seconds >= 45 else "less than a minute left"

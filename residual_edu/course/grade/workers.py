"""The grader's side of the servers: start them, hand them jobs, replace one that breaks."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any

from residual_edu.course.checkout import Refusal
from residual_edu.course.grade.assignment import Assignment

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "RESIDUAL_EDU_DEVICE": "cpu",
    "CUDA_VISIBLE_DEVICES": "",
    "NBGRADER_EXECUTION": "autograde",
    "MPLBACKEND": "Agg",
}
START = 600  # seconds that a source's own cells may take
DEAD = {"said": [], "end": "its process ended before its tests did", "megabytes": 0}


@dataclass(frozen=True)
class Limits:
    """What one answer may use, and what it may not see."""

    seconds: int
    megabytes: int
    secrets: Sequence[Path]


class Workers:
    """``jobs`` servers that share one run of the source's cells; a context, after which none of them is left."""

    def __init__(self, assignment: Assignment, jobs: int, limits: Limits, folder: Path) -> None:
        plan = {"steps": assignment.steps, "seconds": limits.seconds, "megabytes": limits.megabytes}
        self.plan = json.dumps(plan | {"secrets": [str(each) for each in limits.secrets]}) + "\n"
        self.limits, self.folder, self.missing = limits, folder, ""
        self.running: list[subprocess.Popen[bytes]] = []
        self.sockets: list[socket.socket] = []
        self.scratch = TemporaryDirectory(prefix="residual-edu-", ignore_cleanup_errors=True)
        self.free: SimpleQueue[socket.socket] = SimpleQueue()
        self.jobs, self.closed = jobs, False

    def __enter__(self) -> "Workers":
        try:
            for each in self.start(self.jobs):
                self.free.put(each)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        for each in self.sockets:
            each.close()
        self.scratch.cleanup()

    def close(self) -> None:
        """Kill every server; a job that is under way raises ``ConnectionError``."""
        self.closed = True
        for process in self.running:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def start(self, jobs: int) -> list[socket.socket]:
        """Start ``jobs`` servers and wait until they have run the source's cells.

        Raises:
            Refusal: where these cells do not run by themselves.
        """
        ours, theirs = zip(*[socket.socketpair() for _ in range(jobs)], strict=True)
        self.sockets += ours
        command = [sys.executable, "-m", "residual_edu.course.sandbox.server", *[str(each.fileno()) for each in theirs]]
        self.running.append(
            subprocess.Popen(
                command,
                cwd=self.folder,
                env=os.environ | ENVIRONMENT | {"TMPDIR": self.scratch.name},
                pass_fds=[each.fileno() for each in theirs],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )
        for each in theirs:
            each.close()
        ours[0].sendall(self.plan.encode())
        for each in ours:
            said = receive(each, START)
            if said is None or "error" in said:
                why = (said or {}).get("error", "its process ended, or took longer than ten minutes")
                raise Refusal(f"The cells between the exercises do not run by themselves: {why}")
            self.missing = said["missing"]
        return list(ours)

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        """Return what came of ``job``: what its answer said, how it ended, its peak of memory."""
        server = self.free.get()
        try:
            said = exchange(server, job, 4 * self.limits.seconds + 60)
            if said is None and not self.closed:
                server.close()
                server = self.start(1)[0]
        finally:
            self.free.put(server)
        if self.closed:
            raise ConnectionError("grading was stopped")
        return said or DEAD


def exchange(server: socket.socket, job: dict[str, Any], seconds: int) -> dict[str, Any] | None:
    """Send ``job`` and return the answer, or nothing if ``server`` is gone or takes too long."""
    try:
        server.sendall((json.dumps(job) + "\n").encode())
    except OSError:
        return None
    return receive(server, seconds)


def receive(server: socket.socket, seconds: int) -> dict[str, Any] | None:
    """Return the next line that ``server`` sends, or nothing if it hangs up or takes too long."""
    server.settimeout(seconds)
    heard = bytearray()
    with suppress(OSError):
        while not heard.endswith(b"\n"):
            piece = server.recv(1 << 16)
            if not piece:
                return None
            heard += piece
        return json.loads(heard)
    return None

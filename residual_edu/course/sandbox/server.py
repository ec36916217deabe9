"""The process that has run a source's own cells once, and forks for each answer.

``python -m residual_edu.course.sandbox.server FD...``: each FD is a socket to the grader. It is told the source's cells
and the folders that answers may not read, and then serves jobs, a line of JSON each way. It knows no solution, and no
tests but those of the job at hand.
"""

import ctypes
import json
import os
import secrets
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from residual_edu.course.sandbox.confine import confine, missing

PATIENCE = 3  # seconds of waiting for one of work, as in the checks
MOST = 1 << 22  # bytes that an answer may say
DIES_WITH_PARENT = 1


def main(sockets: list[int]) -> None:
    """Run the source's cells, then serve each of ``sockets`` in a process of its own."""
    die_with_parent()
    first, *others = [socket.socket(fileno=each) for each in sockets]
    plan = json.loads(first.makefile().readline())
    lacking = missing()
    try:
        stages = run_steps(plan["steps"])
    except BaseException as error:
        for each in (first, *others):
            send(each, {"error": f"{type(error).__name__}: {error}"})
        return
    for each in (first, *others):
        send(each, {"missing": lacking})
        if os.fork() == 0:
            die_with_parent()
            for other in {first, *others} - {each}:
                other.close()
            serve(each, plan, stages)
            os._exit(0)
    for each in (first, *others):
        each.close()
    for _ in sockets:
        os.wait()


def die_with_parent() -> None:
    """Ask Linux to kill this process when its parent ends, however it ends."""
    ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL, 0, 0, 0)


def run_steps(steps: list[dict[str, str]]) -> dict[str, dict[str, Any]]:
    """Run the cells above and between the exercises; return the names that are there where each exercise stands."""
    from residual_edu.course.sandbox.answer import run
    from residual_edu.exercises.catalogue import catalogue

    catalogue()
    names: dict[str, Any] = {"__name__": "__main__"}
    stages = {}
    for at, step in enumerate(steps):
        if "task" in step:
            stages[step["task"]] = dict(names)
        else:
            run({"id": f"cell {at}", "source": step["source"]}, names)
    return stages


def serve(grader: socket.socket, plan: dict[str, Any], stages: dict[str, dict[str, Any]]) -> None:
    """Answer each job from ``grader`` until it hangs up."""
    for line in grader.makefile():
        job, secret = json.loads(line), secrets.token_hex(16)
        scratch = Path(tempfile.mkdtemp())
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            begin(job, plan, stages, scratch, writer, secret)
        os.close(writer)
        send(grader, watch(child, reader, plan["seconds"], secret))
        shutil.rmtree(scratch, ignore_errors=True)


def begin(job: dict[str, Any], plan: dict[str, Any], stages: Any, scratch: Path, pipe: int, secret: str) -> None:
    """Become the answer's process: alone in its group, no way out but ``pipe``. It never returns."""
    try:
        os.setpgid(0, 0)
        die_with_parent()
        silence = os.open(os.devnull, os.O_RDWR)
        for each in (0, 1, 2):
            os.dup2(silence, each)
        os.dup2(pipe, 3)
        os.closerange(4, 1 << 16)
        os.environ["HOME"] = str(scratch)
        confine(plan["seconds"], plan["megabytes"], scratch, [Path(each) for each in plan["secrets"]])
        from residual_edu.course.sandbox.answer import speak, work

        work(job, stages[job["answer"]["id"]], speak(3, secret))
    finally:
        os._exit(0)


def watch(child: int, reader: int, seconds: int, secret: str) -> dict[str, Any]:
    """Listen to a child until it ends or its time is over, kill what is left, and return what it said and its end."""
    heard, limit = b"", time.monotonic() + PATIENCE * seconds
    while (left := limit - time.monotonic()) > 0 and len(heard) < MOST:
        if not select.select([reader], [], [], left)[0]:
            break
        piece = os.read(reader, 1 << 16)
        if not piece:
            break
        heard += piece
    late = time.monotonic() >= limit
    os.kill(child, signal.SIGKILL)
    os.close(reader)
    _, status, usage = os.wait4(child, 0)
    late |= usage.ru_utime + usage.ru_stime >= seconds - 0.5
    ends = "it ran out of time" if late else "its process ended before its tests did"
    return {"said": told(heard, secret), "end": ends, "megabytes": usage.ru_maxrss // 1000}


def told(heard: bytes, secret: str) -> list[Any]:
    """Return the lines that carry the secret, without it; what is no such line counts for nothing."""
    lines = []
    for line in heard.split(b"\n"):
        try:
            said = json.loads(line)
            if said.pop("secret") == secret:
                lines.append(said)
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            continue
    return lines


def send(grader: socket.socket, what: dict[str, Any]) -> None:
    """Send one line."""
    grader.sendall((json.dumps(what) + "\n").encode())


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]])

"""nbgrader in a process of its own, watched from outside: its time, and what its kernel leaves on the disk."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from residual_course.commands.grading.submission import printable

SHARED = 200_000  # KiB that a kernel may leave in the folder of its sockets
MEMORY = 6_000_000_000  # bytes of nbgrader, which gathers a kernel's output
LOOK = 1.0  # seconds from one look at the disk to the next


@cache
def forks() -> ForkServerContext:
    """To import nbgrader takes two seconds: a server does so once, and each process is a fork of it."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["residual_course.commands.grading.one"])
    return context


def run(folder: Path, task: dict[str, Any], shared: Path, seconds: float, stopped: threading.Event) -> str:
    """Let ``one`` do ``task`` in ``folder``, for at most ``seconds`` or until ``stopped``; return what stopped it."""
    (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")
    (folder / "log").touch()
    process = forks().Process(target=begin, args=(folder, environment(folder, shared)))
    process.start()
    assert process.pid
    trouble = watch(process, shared, seconds, stopped)
    if process.is_alive():
        process.kill()
        with suppress(ProcessLookupError):  # it had no group of its own yet
            os.killpg(process.pid, signal.SIGKILL)  # bubblewrap's kernel dies with it
    process.join()
    return trouble


def begin(folder: Path, own: dict[str, str]) -> None:
    """Do a task, in a group of processes and an environment of its own; its words go into a log."""
    import resource  # which a system without forks has not

    from residual_course.commands.grading import one

    os.setsid()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    log = os.open(folder / "log", os.O_WRONLY | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    warnings.simplefilter("ignore")
    os.environ.clear()
    os.environ.update(own)
    one.main(folder)


def watch(process: BaseProcess, shared: Path, seconds: float, stopped: threading.Event) -> str:
    """Wait for ``process``; return why it has to be stopped, empty where it ended by itself."""
    deadline, look = time.monotonic() + seconds, 0.0
    while process.is_alive():
        if stopped.wait(0.1):
            return "this command was stopped"
        if time.monotonic() > deadline:
            return f"it took more than {seconds:g} seconds"
        if time.monotonic() > look:
            look = time.monotonic() + LOOK
            if used(shared) > SHARED:
                return "it filled the disk"
    return ""


def used(folder: Path) -> int:
    """Return the KiB that ``folder`` takes, however deep it is and while files come and go."""
    said = subprocess.run(["du", "-sk", folder], capture_output=True, text=True, errors="replace").stdout
    return int(said.split()[0]) if said else 0


@contextmanager
def sockets() -> Iterator[Path]:
    """A folder for a kernel's sockets, at a short path, which anybody may write: its kernel is nobody's."""
    folder = Path(tempfile.mkdtemp(prefix="k"))
    folder.chmod(0o777)
    try:
        yield folder
    finally:
        subprocess.run(["rm", "-rf", folder], capture_output=True)  # shutil gives up on deep folders


def environment(folder: Path, shared: Path) -> dict[str, str]:
    """Return what nbgrader needs of this environment; it finds alembic beside this Python."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    own = {name: str(folder / name.lower()) for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")}
    own |= {"JUPYTER_RUNTIME_DIR": str(shared), "JUPYTER_PATH": str(folder / "jupyter"), "HOME": str(folder)}
    own |= {"PATH": path, "LANG": "C.UTF-8", "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    return own | {"RESIDUAL_EDU_STRICT": "1", "RESIDUAL_EDU_DEVICE": "cpu"}


def last_line(log: Path) -> str:
    """Return the last words of a log."""
    words = log.read_bytes()[-2000:].decode(errors="replace").strip().splitlines()
    return printable(words[-1])[:300] if words else "it ended without a word"

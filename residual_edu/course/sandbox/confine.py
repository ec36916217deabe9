"""Shut an answer's process in: how long, how much memory, which files, which system calls."""

import os
import resource
import sys
import time
from collections.abc import Sequence
from math import ceil
from pathlib import Path

from residual_edu.course.sandbox.landlock import around, open_only
from residual_edu.course.sandbox.seccomp import refuse_calls

PACKAGE = Path(__file__).resolve().parents[2]
SECRETS = [PACKAGE / "exercises", PACKAGE / "course"]  # right answers stand there, and the grader
DEVICES = [Path("/dev/null"), Path("/dev/zero"), Path("/dev/urandom")]
SYSTEM = ["/usr", "/lib", "/lib64", sys.prefix, sys.base_prefix]
LARGEST_FILE = 1 << 20


def confine(seconds: int, megabytes: int, scratch: Path, secrets: Sequence[Path]) -> None:
    """Limit this process, for good; it reads Python's files and writes into ``scratch``, its working folder."""
    os.chdir(scratch)
    sys.path[:] = [folder for folder in sys.path if folder]
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = {
        resource.RLIMIT_CPU: seconds + ceil(time.process_time()),
        resource.RLIMIT_AS: used + megabytes * 1_000_000,
        resource.RLIMIT_FSIZE: LARGEST_FILE,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 256,
    }
    for what, most in limits.items():
        resource.setrlimit(what, (most, most))
    open_only(readable(secrets), [scratch, *DEVICES])
    refuse_calls()


def readable(secrets: Sequence[Path]) -> list[Path]:
    """Return the folders of Python, of the system's libraries and of the package, without the secret ones."""
    roots = {Path(each).resolve() for each in SYSTEM} | {PACKAGE}
    within = (path.resolve() for path in [*SECRETS, *secrets])  # a folder around a root hides nothing of the root
    hidden = [path for path in within if not any(root.is_relative_to(path) for root in roots)]
    return [part for root in sorted(roots) for part in around(root, hidden)]


def missing() -> str:
    """Return which of the system's limits are not to be had here, found out in a process of its own."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        said = [part for part in (open_only([], []), refuse_calls()) if part]
        os.write(writer, ", ".join(said).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said_there = pipe.read()
    os.wait()
    return said_there

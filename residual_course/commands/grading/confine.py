"""A kernel that sees Python, this package and a small folder for its sockets, and nothing else.

bubblewrap gives it a file system, processes and a network of its own, with none of the last; prlimit bounds memory,
processes and files, which bubblewrap does not. Root makes the mounts itself and then steps down to nobody by setpriv:
inside a user namespace root's files would stay readable.
"""

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from glob import glob
from importlib.util import find_spec
from pathlib import Path

from residual_course.commands.checkout import Refusal

TOOLS = ("bwrap", "setpriv", "prlimit", "sh")
# Bytes, files. None of the processor's time: Linux then counts it in whole ticks, and what a lesson times takes none.
LIMITS = ["--data=3000000000", "--fsize=50000000", "--nofile=1024", "--core=0"]
TEMPORARY, SHARED = 500_000_000, 100_000_000  # bytes of /tmp and /dev/shm, both in memory
SYSTEM = ("/lib", "/lib64", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts")
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "USER": "student",
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "MPLCONFIGDIR": "/tmp/matplotlib",
    "NBGRADER_EXECUTION": "autograde",
    "RESIDUAL_EDU_DEVICE": "cpu",
    "RESIDUAL_EDU_STRICT": "1",
}
PACKAGES = [Path(find_spec(name).origin).parent for name in ("residual_edu", "residual_course")]  # type: ignore
CONNECTION = "/tmp/connection.json"
WITHOUT = (
    "Submissions are run inside bubblewrap, and {}. Install it (Debian and Ubuntu: apt install bubblewrap; Fedora: dnf "
    "install bubblewrap), or grade in a container of your own with --unconfined: then nothing else shuts them in."
)


def kernel(sockets: Path) -> list[str]:
    """Return the command of a kernelspec whose kernel is shut in and reaches the folder ``sockets``."""
    inside = [sys.executable, "-m", "ipykernel_launcher", "-f", CONNECTION]
    outside = bubblewrap(sockets, ["--perms", "0444", "--file", "9", CONNECTION]) + stepped_down() + inside
    return ["sh", "-c", 'connection=$1; shift; exec "$@" 9<"$connection"', "sh", "{connection_file}", *outside]


def write_kernelspec(folder: Path, sockets: Path) -> None:
    """Write a kernelspec called python3 below ``folder``; its kernel is interrupted by message, from within."""
    spec = folder / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    made = {"argv": kernel(sockets), "display_name": "Python 3", "language": "python", "interrupt_mode": "message"}
    spec.write_text(json.dumps(made), encoding="utf-8")


def check_confinement(folder: Path) -> None:
    """Raise ``Refusal`` where a command cannot be shut in here; ``folder`` is empty."""
    if missing := [tool for tool in TOOLS if not shutil.which(tool)]:
        raise Refusal(WITHOUT.format(f"there is no {missing[0]} here"))
    command = [*bubblewrap(folder, []), *stepped_down(), sys.executable, "-c", "import residual_course"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"code {done.returncode}"])[-1]
        raise Refusal(WITHOUT.format(f"it does not work here ({reason})"))


def bubblewrap(sockets: Path, more: list[str]) -> list[str]:
    """Return bubblewrap's words up to the command: what is seen, read-only but for ``sockets``, and nothing shared."""
    is_root = os.geteuid() == 0
    shared = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    rights = ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP"]
    words = ["bwrap", *(shared + rights if is_root else ["--unshare-all"]), "--die-with-parent", "--new-session"]
    words += ["--clearenv", *(word for name, value in ENVIRONMENT.items() for word in ("--setenv", name, value))]
    words += ["--perms", "0755", "--dir", "/etc", "--ro-bind", "/usr", "/usr"]
    words += [word for path in SYSTEM for word in system(Path(path))]
    words += ["--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev"]
    words += ["--size", str(SHARED), "--perms", "1777", "--tmpfs", "/dev/shm"]
    words += ["--size", str(TEMPORARY), "--perms", "1777", "--tmpfs", "/tmp"]
    python = {Path(sys.prefix), Path(sys.base_prefix), *PACKAGES}
    for path in sorted(path for path in python if not path.is_relative_to("/usr") or path.is_relative_to("/usr/local")):
        words += [*reachable(path), "--ro-bind", str(path), str(path)]
    return [*words, *reachable(sockets), "--bind", str(sockets), str(sockets), *more, "--chdir", "/tmp", "--"]


def reachable(path: Path) -> list[str]:
    """Return the words that make the folders above ``path`` passable; bubblewrap makes them for their owner alone."""
    above = [str(folder) for folder in reversed(path.parents) if folder not in (Path("/"), Path("/tmp"), Path("/usr"))]
    return [word for folder in above if not folder.startswith("/usr/") for word in ("--perms", "0755", "--dir", folder)]


def system(path: Path) -> list[str]:
    """Return the words for a part of the system that may be a link, a folder or not there."""
    if path.is_symlink():
        return ["--symlink", os.readlink(path), str(path)]
    return ["--ro-bind", str(path), str(path)] if path.exists() else []


def stepped_down() -> list[str]:
    """Return the words that take root's rights away, where there are any, and set the limits."""
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    rights = ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
    return [*(nobody + rights if os.geteuid() == 0 else []), "prlimit", *LIMITS, f"--nproc={processes()}", "--"]


def processes() -> int:
    """Return how many processes and threads the kernel's user may have: 100 more than it has outside."""
    user, found = 65534 if os.geteuid() == 0 else os.geteuid(), 0
    for thread in glob("/proc/[0-9]*/task/*"):
        with suppress(OSError):  # it has just ended
            found += os.stat(thread).st_uid == user
    return 100 + found

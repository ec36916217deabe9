"""The hub of docs/hub.md on this machine: /etc, /home and /srv are its own, and all that it starts ends with it."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

from residual_course.commands.grading.confine import reachable

from .lab import free_port

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / ".venv-grading" / "bin"
GUIDE = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs" / "hub.md").read_text(encoding="utf-8"), re.M | re.S)
_, _, SET_UP, _, _, HAND_OUT, RETURN, *_ = GUIDE
OWN = ("etc", "home", "srv")
PASSWORD = "a password"


def missing() -> str:
    """Return what keeps the hub from being started here, or nothing."""
    if os.name == "nt" or os.geteuid():
        return "the hub starts servers for other accounts, which root alone can"
    if not all((PROGRAMS / name).exists() for name in ("jupyterhub", "configurable-http-proxy")):
        return "there is no hub: install npm, then run `python course.py hub --version`"
    return "" if shutil.which("bwrap") and shutil.which("unshare") else "bubblewrap or unshare is not installed"


@contextmanager
def hub(folder: Path, names: Sequence[str]) -> Iterator[str]:
    """Run the hub for accounts of these names until the block ends; ``folder`` has its /srv and /home.

    Ports are free ones; all else is the configuration as it stands, and the guide's own commands.
    """
    for name in OWN:
        (folder / name).mkdir(exist_ok=True)
        (folder / name).chmod(0o755)
    shutil.copytree("/etc", folder / "etc", symlinks=True, dirs_exist_ok=True)
    accounts = "".join(f"{name}:{PASSWORD}:::{name}:/home/{name}:/bin/bash\n" for name in names)
    (folder / "srv" / "accounts.txt").write_text(accounts)
    settings = folder / "etc" / "jupyter" / "jupyter_server_config.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('{"LabApp": {"expose_app_in_browser": true}}')  # so that a test can ask it
    port, inner, api = free_port(), free_port(), free_port()
    options = f"--ip=127.0.0.1 --port={port} --JupyterHub.hub_port={inner}"
    options += f" --ConfigurableHTTPProxy.api_url=http://127.0.0.1:{api}"
    configuration = ROOT / "docs" / "hub" / "jupyterhub_config.py"
    start = f"exec {PROGRAMS}/python -m jupyterhub --config {configuration} {options}"
    with (folder / "log").open("w") as log:
        script = f"set -e; cd /srv; {SET_UP}\n{start}"
        process = subprocess.Popen([*inside(folder), "sh", "-c", script], stdout=log, stderr=log)
    try:
        wait_until_up(f"http://127.0.0.1:{port}", process, folder / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()  # with it ends the first process of the namespace, and so does every other
        process.wait()


def inside(folder: Path) -> list[str]:
    """Return the words before a command that runs it as root of the machine of ``folder``.

    Where a folder above the checkout or this Python is closed to other accounts, an open one that holds it alone takes
    its place.
    """
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bwrap", "--dev-bind", "/", "/"]
    kept = sorted(path for path in (ROOT, Path(sys.base_prefix)) if any(map(is_closed, path.parents)))
    for path in kept:
        words += ["--perms", "1777", "--tmpfs", str(path.parents[-2])]
    for path in kept:
        words += [*reachable(path), "--bind", str(path), str(path)]
    return [*words, *(word for name in OWN for word in ("--bind", str(folder / name), f"/{name}")), "--"]


def is_closed(folder: Path) -> bool:
    """Whether other accounts than its owner cannot pass through ``folder``."""
    return not folder.stat().st_mode & 0o001


def wait_until_up(address: str, process: subprocess.Popen, log: Path) -> None:
    """Return once the hub answers; fail with its log where it ends or takes too long."""
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        try:
            urlopen(f"{address}/hub/api/", timeout=5).close()
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"the hub did not start:\n{log.read_text()}")


if __name__ == "__main__":  # for benchmarks/hub_load.py: `python -m tests.browser.hub 30`
    students = [f"student{number}" for number in range(1, int(sys.argv[1]) + 1)]
    with TemporaryDirectory(ignore_cleanup_errors=True) as there:
        subprocess.run(["git", "clone", "--quiet", ROOT, Path(there, "srv", "residual_edu")], check=True)
        with hub(Path(there), ["teacher", *students]) as origin:
            input(f"python -m benchmarks.hub_load {there}/srv/accounts.txt --origin {origin}\nEnter ends it. ")

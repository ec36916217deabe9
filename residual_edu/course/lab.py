"""``residual-edu lab``: JupyterLab, open on the first lesson."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from residual_edu.course.checkout import Refusal, find_root

FIRST = "00_residual_connection.ipynb"
# JupyterLab's defaults, without its question about news and its look for updates, and with all cells on the page, so
# that the browser's own search and a screen reader find them. What a person sets in JupyterLab still wins.
SETTINGS = Path(__file__).with_name("lab_settings")


def run(argv: Sequence[str]) -> int:
    """Open JupyterLab on the first lesson; what stands in ``argv``, such as ``--no-browser``, is handed on to it."""
    notebook = find_root() / "notebooks" / FIRST
    if not notebook.exists():
        raise Refusal(f"There is no {notebook}; make it first: residual-edu build 00")
    return wait(subprocess.Popen(command(notebook, argv), env={"OMP_NUM_THREADS": "1", **os.environ}))


def command(notebook: Path, argv: Sequence[str]) -> list[str]:
    """Return the command line that opens ``notebook`` in this Python's JupyterLab, and prints its address."""
    ours = [
        f"--ServerApp.root_dir={notebook.parent}",
        f"--LabApp.default_url=/lab/tree/{notebook.name}",
        f"--LabApp.app_settings_dir={SETTINGS}",
        "--LabApp.extension_manager=readonly",
    ]
    return [sys.executable, "-m", "jupyterlab", *ours, *argv]


def wait(process: subprocess.Popen[bytes]) -> int:
    """Return the exit code of ``process``. Ctrl-C reaches it too: JupyterLab asks what to do, and we wait for that."""
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue

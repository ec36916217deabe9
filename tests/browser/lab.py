"""A real JupyterLab on loopback, with folders of its own, and the Chromium that opens it."""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode

from residual_course.commands.lab import CONNECTION

SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},  # every cell stands in the page, seen or not
}


class Lab(NamedTuple):
    """A running JupyterLab: where it is, and the folder of notebooks that it serves."""

    origin: str
    token: str
    notebooks: Path

    def save(self, name: str, notebook: NotebookNode) -> str:
        """Save ``notebook`` under ``name`` without its outputs, and return where to open it, in a workspace of its own.

        A copy: the checkout stays clean, and all that is seen was made by this run.
        """
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        nbformat.write(notebook, self.notebooks / f"{name}.ipynb")
        return f"{self.origin}/lab/workspaces/{name}/tree/{name}.ipynb?token={self.token}"


def find_chromium() -> str | None:
    """Return the Chromium named by RESIDUAL_EDU_CHROMIUM, or else the first one on the path."""
    named = os.environ.get("RESIDUAL_EDU_CHROMIUM")
    names = [named] if named else ["chromium", "chromium-browser", "google-chrome", "chrome"]
    return next((found for name in names if (found := shutil.which(name))), None)


@contextmanager
def jupyterlab(home: Path) -> Iterator[Lab]:
    """Run JupyterLab until the block ends; all that it reads and writes lies in ``home``."""
    lab = Lab(f"http://127.0.0.1:{free_port()}", secrets.token_hex(16), home / "notebooks")
    lab.notebooks.mkdir()
    (home / "settings").mkdir()
    (home / "settings" / "overrides.json").write_text(json.dumps(SETTINGS))
    with (home / "log").open("w") as log:
        server = subprocess.Popen(command(lab, home), env=environment(home), stdout=log, stderr=log)
    try:
        wait_until_up(lab, server, home / "log")
        yield lab
    finally:
        server.terminate()  # stops its kernels too
        server.wait(timeout=120)


def command(lab: Lab, home: Path) -> list[str]:
    """Return what starts the server; without its extension manager and news it asks nothing of the network."""
    options = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": lab.origin.rpartition(":")[2],
        "ServerApp.port_retries": 0,
        "ServerApp.root_dir": lab.notebooks,
        "IdentityProvider.token": lab.token,
        "LabApp.app_settings_dir": home / "settings",
        "LabApp.expose_app_in_browser": True,
        "LabApp.extension_manager": "readonly",
        "ServerApp.kernel_websocket_connection_class": CONNECTION,  # as `residual-edu lab` has it
    }
    flags = [f"--{name}={value}" for name, value in options.items()]
    return [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", *flags]


def environment(home: Path) -> dict[str, str]:
    """Return this process's environment, with Jupyter's and IPython's folders moved to ``home``."""
    moved = ["JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"]
    return os.environ | {name: str(home / name.lower()) for name in moved} | {"OMP_NUM_THREADS": "1"}


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until_up(lab: Lab, server: subprocess.Popen, log: Path, patience: float = 600) -> None:
    """Return once the server listens; fail with its log where it ends or takes too long."""
    deadline = time.monotonic() + patience
    address = ("127.0.0.1", int(lab.origin.rpartition(":")[2]))
    while server.poll() is None and time.monotonic() < deadline:
        with socket.socket() as caller:
            if caller.connect_ex(address) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()}")

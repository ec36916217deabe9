"""The environment in which nbgrader is installed, and commands run there as an instructor runs them."""

import os
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from sys import executable

import pytest

ROOT = Path(__file__).parents[2]
OWN = ROOT / ".venv-grading" / "bin" / "python"
Command = Callable[..., subprocess.CompletedProcess]


@pytest.fixture(scope="session")
def python() -> Path:
    """The Python beside nbgrader: that of course.py's own environment, or this one."""
    if OWN.exists():
        return OWN
    if find_spec("nbgrader"):
        return Path(executable)
    return pytest.skip("nbgrader is not installed: `python course.py grade --help` makes its environment")


@pytest.fixture(scope="session")
def nbgrader(python) -> Command:
    """Run nbgrader in a folder; it finds alembic beside its Python."""

    def run(folder, *words):
        path = os.pathsep.join([str(python.parent), os.environ["PATH"]])
        environment = os.environ | {"PATH": path, "PYTHONWARNINGS": "ignore", "HOME": str(folder)}
        command = [python, "-m", "nbgrader", *words]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done

    return run


@pytest.fixture(scope="session")
def residual_edu(python) -> Command:
    """Run a verb of the course in the checkout."""

    def run(*words, **environment):
        command = [python, "-m", "residual_edu.course", *map(str, words)]
        return subprocess.run(
            command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, errors="replace"
        )

    return run

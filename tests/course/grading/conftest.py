"""The environment in which nbgrader is installed, and commands run there as an instructor runs them."""

import csv
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from sys import executable

import pytest

from .handed_in import RIGHT, notebook

ROOT = Path(__file__).parents[3]
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
        command = [python, "-m", "residual_course", *map(str, words)]
        return subprocess.run(
            command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, errors="replace"
        )

    return run


def small_homework(folder):
    """Write the source of an instructor's own homework into a new folder."""
    folder.mkdir()
    text = Path(__file__).with_name("hw_small.txt").read_text(encoding="utf-8").replace("NAME", "small")
    (folder / "hw_small.py").write_text(text, encoding="utf-8")


@pytest.fixture(scope="session")
def course(tmp_path_factory, residual_edu):
    """A course folder with every lesson and homework, and hw_small of an instructor's own."""
    out = tmp_path_factory.mktemp("course")
    assert residual_edu("assignment", out).returncode == 0
    small_homework(out / "private")
    assert residual_edu("assignment", out, "--from", out / "private").returncode == 0
    return out


RELEASE_ALL = """
import sys
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import PyFileConfigLoader
config = PyFileConfigLoader("nbgrader_config.py").load_config()
api = NbGraderAPI(CourseDirectory(config=config), config=config)
for name in sys.argv[1:]:
    done = api.generate_assignment(name, force=True, create=True)
    assert done["success"], done["log"]
"""


@pytest.fixture(scope="session")
def released(course, python):
    """What nbgrader releases, all in one process."""
    names = [path.name for path in (course / "source").iterdir()]
    environment = os.environ | {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [python, "-c", RELEASE_ALL, *names], cwd=course, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-500:]
    return course / "release"


@pytest.fixture
def small(course, released, tmp_path):
    """A course folder of hw_small alone, with a right submission of ada's."""
    shutil.copytree(course / "source" / "hw_small", tmp_path / "source" / "hw_small")
    shutil.copy(course / "nbgrader_config.py", tmp_path)
    handout = (released / "hw_small" / "hw_small.ipynb").read_text()
    hand_in(tmp_path, "ada", json.dumps(notebook(handout, RIGHT)))
    return tmp_path


def hand_in(out, name, made, assignment="hw_small", file=""):
    folder = out / "submitted" / name / assignment
    folder.mkdir(parents=True)
    (folder / (file or f"{assignment}.ipynb")).write_bytes(made if isinstance(made, bytes) else made.encode())


def rows(path):
    with path.open(newline="", encoding="utf-8") as file:
        return {row["student"]: row for row in csv.DictReader(file)}

"""A copy of course.py with a stand-in for the environment's Python."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WINDOWS = pytest.mark.skipif(os.name == "nt", reason="the stand-in for Python is a script with a first line")

# Stands where .venv's Python would, and notes what it was asked; REPLY is what it says as pip, and its exit code.
# A shell between: the path in a script's first line cannot hold a space.
SHELL = '#!/bin/sh\nexec "{python}" "{script}" "$@"\n'
STAND_IN = """
import os, sys, time
words = sys.argv[1:]
open({log!r}, "a").write(" ".join(words) + "\\n")
if words[0] == "-c":
    print("3.11.0")
elif words[:2] == ["-m", "pip"]:
    print(os.environ.get("REPLY", "Collecting torch"), flush=True)
    time.sleep(float(os.environ.get("PAUSE", "0")))
    sys.exit("REPLY" in os.environ)
else:
    print("verb", *words[1:])
    sys.exit(int(os.environ.get("CODE", "0")))
"""


@pytest.fixture
def checkout(tmp_path):
    """A copy of what course.py needs, in a folder with a space and an accent in its name."""
    folder = tmp_path / "My courses é"
    folder.mkdir()
    for name in ("course.py", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture
def prepared(checkout):
    """The same with a stand-in for an environment's Python."""
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    script = checkout / "stand_in.py"
    script.write_text(STAND_IN.format(log=str(checkout / "asked")), encoding="utf-8")
    python.write_text(SHELL.format(python=sys.executable, script=script), encoding="utf-8")
    python.chmod(0o755)
    return checkout


@pytest.fixture
def course(checkout):
    """course.py as a module, for what has to be simulated inside it."""
    spec = importlib.util.spec_from_file_location("course_under_test", checkout / "course.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(folder, *words, **environment):
    command = [sys.executable, folder / "course.py", *words]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120)


def sentence(done):
    """The one line on stderr of a run that failed."""
    assert done.returncode not in (0, None)
    assert "Traceback" not in done.stdout + done.stderr
    (line,) = done.stderr.strip().splitlines()
    return line


def asked(folder):
    return [line.split()[1] for line in (folder / "asked").read_text().splitlines()]

"""Where the home folder cannot be written, what the tools keep goes into the environment's own folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from residual_course.commands import home, main

ROOT = Path(__file__).parents[3]
HOMES = ("HOME", "USERPROFILE", "HOMEDRIVE", "HOMEPATH")


@pytest.fixture
def surroundings(tmp_path, monkeypatch):
    """An environment that can be written, and a process of which the home and none of the folders are known."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    (tmp_path / "env").mkdir()
    for name in (*HOMES, *home.KEPT):
        monkeypatch.setenv(name, "noted, and so put back at the end")
        monkeypatch.delenv(name)
    return tmp_path


def set_home(monkeypatch, folder):
    for name in HOMES[:2]:
        monkeypatch.setenv(name, str(folder))


def test_a_home_that_can_be_written_stays_in_use(surroundings, monkeypatch):
    set_home(monkeypatch, surroundings)
    home.replace_home()
    assert not set(home.KEPT) & set(os.environ)


def test_without_one_the_environment_serves(surroundings, monkeypatch):
    set_home(monkeypatch, surroundings / "missing")
    monkeypatch.setenv("IPYTHONDIR", "mine")
    home.replace_home()
    set_now = {name: os.environ[name] for name in home.KEPT}
    assert set_now.pop("IPYTHONDIR") == "mine"
    assert len({*set_now.values()}) == 4
    assert {Path(folder).parent for folder in set_now.values()} == {surroundings / "env" / "home"}


def test_and_where_that_cannot_be_written_either_a_temporary_folder(surroundings, monkeypatch):
    set_home(monkeypatch, surroundings / "missing")
    monkeypatch.setattr(home.os, "access", lambda path, mode: False)
    monkeypatch.setattr(home, "mkdtemp", lambda prefix: str(surroundings / prefix))
    home.replace_home()
    assert {Path(os.environ[name]).parent for name in home.KEPT} == {surroundings / "residual_edu-"}


def test_every_verb_begins_with_it(surroundings, monkeypatch):
    set_home(monkeypatch, surroundings / "missing")
    (surroundings / "notebooks" / "source").mkdir(parents=True)
    monkeypatch.chdir(surroundings)
    assert main(["build", "--check"]) == 0
    assert set(home.KEPT) <= set(os.environ)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="on Windows a folder is not made read-only by its mode")
def test_a_kernel_runs_and_matplotlib_is_silent_in_a_home_that_is_read_only(tmp_path):
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    code = (
        "from residual_course.commands.home import replace_home; replace_home()\n"
        "from jupyter_client.manager import run_kernel\n"
        "with run_kernel() as client:\n"
        "    client.execute_interactive('import matplotlib.pyplot; print(1 + 1)', timeout=100)\n"
    )
    without = {name: value for name, value in os.environ.items() if name not in home.KEPT}
    environment = without | {"HOME": str(locked), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
    assert os.geteuid() == 0 or not any(locked.iterdir())  # root may write everywhere, and then nothing is replaced

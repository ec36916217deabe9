"""The command line, and where it keeps what Jupyter and matplotlib keep if the home folder cannot be written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from residual_course.commands import home, main

ROOT = Path(__file__).parents[3]
HOMES = ("HOME", "USERPROFILE", "HOMEDRIVE", "HOMEPATH")


def python(*words, **environment):
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    (tmp_path / "notebooks" / "source").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "notebooks" / "source")
    return tmp_path


def test_a_verb_runs_from_an_inner_folder_by_either_name(checkout, capsys):
    assert main(["build", "--check"]) == 0
    assert capsys.readouterr().out == "Every notebook is what its source builds.\n"
    said = (0, "0 of 0 cells show their modules' text.\n", "")
    assert python("-m", "residual_course", "promote", "--check") == said


def test_outside_a_checkout_one_sentence_and_exit_code_2(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["build"]) == 2
    said = f"There is no notebooks/source in {tmp_path} or above it: change into a checkout of residual_edu first.\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("argv", [[], ["bild"], ["build", "--chek"], ["--help"]])
def test_an_unknown_word_shows_the_usage_and_help_the_verbs(checkout, argv, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(argv)
    said = capsys.readouterr()
    assert stopped.value.code == (0 if argv == ["--help"] else 2) and "usage: residual-edu" in said.out + said.err
    if argv == ["--help"]:
        assert all(f"  {verb} " in said.out for verb in ("lab", "test", "build", "lint", "promote"))


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """An environment that can be written, and a process of which the home and none of the folders are known."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    (tmp_path / "env").mkdir()
    for name in (*HOMES, *home.KEPT):
        monkeypatch.setenv(name, "noted, and so put back at the end")
        monkeypatch.delenv(name)
    for name in HOMES[:2]:
        monkeypatch.setenv(name, str(tmp_path / "missing"))
    return tmp_path


def test_without_a_home_the_environment_serves_and_one_that_can_be_written_stays_in_use(
    environment, monkeypatch, checkout
):
    (environment / "missing").mkdir()
    home.replace_home()
    assert not set(home.KEPT) & set(os.environ)
    (environment / "missing").rmdir()
    monkeypatch.setenv("IPYTHONDIR", "mine")
    assert main(["build", "--check"]) == 0  # as every verb begins
    kept = {name: os.environ[name] for name in home.KEPT}
    assert kept.pop("IPYTHONDIR") == "mine" and len({*kept.values()}) == 4
    assert {Path(folder).parent for folder in kept.values()} == {environment / "env" / "home"}


def test_and_where_that_cannot_be_written_either_a_temporary_folder(environment, monkeypatch):
    monkeypatch.setattr(home.os, "access", lambda path, mode: False)
    monkeypatch.setattr(home, "mkdtemp", lambda prefix: str(environment / prefix))
    home.replace_home()
    assert {Path(os.environ[name]).parent for name in home.KEPT} == {environment / "residual_edu-"}


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="on Windows a folder is not made read-only by its mode")
def test_a_kernel_runs_and_matplotlib_is_silent_in_a_home_that_is_read_only(tmp_path, monkeypatch):
    (locked := tmp_path / "locked").mkdir(mode=0o500)
    for name in home.KEPT:
        monkeypatch.delenv(name, raising=False)
    code = (
        "from residual_course.commands.home import replace_home; replace_home()\n"
        "from jupyter_client.manager import run_kernel\n"
        "with run_kernel() as client:\n"
        "    client.execute_interactive('import matplotlib.pyplot; print(1 + 1)', timeout=100)\n"
    )
    code, said, trouble = python("-c", code, HOME=str(locked))
    assert (code, said) == (0, "2\n"), trouble
    assert os.geteuid() == 0 or not any(locked.iterdir())  # root may write everywhere, and then nothing is replaced

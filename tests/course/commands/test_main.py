import os
import subprocess
import sys
from pathlib import Path

import pytest

from residual_course.commands import main

HERE = Path(__file__).parents[3]


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    (tmp_path / "notebooks" / "source").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_verb_runs_from_an_inner_folder(checkout, monkeypatch, capsys):
    monkeypatch.chdir(checkout / "notebooks" / "source")
    assert main(["build", "--check"]) == 0
    assert capsys.readouterr().out == "Every notebook is what its source builds.\n"


def test_outside_a_checkout_one_sentence_and_exit_code_2(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for verb in ("build", "lint"):
        assert main([verb]) == 2
        said = capsys.readouterr().err
        assert said == (
            f"There is no notebooks/source in {tmp_path} or above it: change into a checkout of residual_edu first.\n"
        )


@pytest.mark.parametrize("argv", [[], ["bild"], ["build", "--chek"]])
def test_an_unknown_word_shows_the_usage(checkout, argv, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(argv)
    assert stopped.value.code == 2
    assert "usage: residual-edu" in capsys.readouterr().err


def test_help_lists_the_verbs(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert all(f"  {verb} " in said for verb in ("lab", "test", "build", "lint", "promote"))


def test_python_m_is_the_same_command(checkout):
    command = [sys.executable, "-m", "residual_course", "promote", "--check"]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(HERE)}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "0 of 0 cells show their modules' text.\n"


def test_importing_the_command_line_loads_no_notebook_library():
    code = (
        "import sys, residual_course.commands; print({'jupytext', 'nbclient', 'nbformat', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=HERE, capture_output=True, text=True)
    assert done.stdout == "set()\n"

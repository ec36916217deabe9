"""course.py: what it does once, and what it skips the second time."""

import ast
import shutil
import sys
import types
import venv
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from .conftest import ROOT, WINDOWS, asked, run


@WINDOWS
def test_the_second_run_installs_nothing_and_starts_at_once(prepared):
    first = run(prepared, "build", "--check", "02")
    assert first.stdout.splitlines()[-1] == "verb residual_course build --check 02"
    assert "installed" in first.stdout
    before = (prepared / "asked").read_text().splitlines()
    again = run(prepared, "lab")
    version, verb = (prepared / "asked").read_text().splitlines()[len(before) :]  # nothing else is started
    assert version.startswith("-c") and verb.startswith("-m residual_course lab")
    assert again.stdout == "verb residual_course lab\n"
    assert asked(prepared).count("pip") == asked(prepared).count("compileall") == 1


@WINDOWS
@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_a_changed_requirement_is_installed(prepared, name):
    run(prepared, "lab")
    with (prepared / name).open("a") as file:
        file.write("\n")
    run(prepared, "lab")
    assert asked(prepared).count("pip") == 2


def test_the_learner_sees_that_something_moves(course, monkeypatch, capsys):
    slow = "import time; time.sleep(0.5); print('Collecting torch', flush=True); time.sleep(1.2)"
    monkeypatch.setattr(course.LEARNING, "pip", [sys.executable, "-c", slow])
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    course.install(course.LEARNING)
    shown = capsys.readouterr().out.split("\r")
    first, *middle, last = [line.split("s  ")[1].strip() for line in shown[1:]]
    assert (first, last) == ("Starting pip", "installed")
    assert middle.count("Collecting torch") >= 2 and {*middle} <= {
        first,
        "Collecting torch",
    }  # a busy Python starts late
    assert int(shown[-1].split(" s ")[0]) >= 1


@WINDOWS
@pytest.mark.parametrize(
    ("words", "made"),
    [
        (["lab"], [".venv"]),
        (["test"], [".venv"]),
        (["test", "--all"], [".venv", ".venv-grading", "book", "peers"]),
        (["book"], [".venv", "book"]),
        (["grade", "out"], [".venv-grading"]),
        (["assignment", "out"], [".venv-grading"]),
        (["new", "hw_a"], [".venv-grading"]),
    ],
)
def test_nbgrader_has_an_environment_of_its_own_and_sphinx_comes_with_the_book(prepared, words, made):
    shutil.copytree(prepared / ".venv", prepared / ".venv-grading")
    done = run(prepared, *words)
    installed = [line for line in (prepared / "asked").read_text().splitlines() if "pip install" in line]
    extras = {".venv": ".[lab,test]", ".venv-grading": ".[grading]", "book": ".[book]", "peers": ".[peers]"}
    stamps = {name: prepared / name / "installed-by-course-py" for name in (".venv", ".venv-grading")}
    stamps |= {name: prepared / ".venv" / f"installed-by-course-py-{name}" for name in ("book", "peers")}
    assert [line.split()[-1] for line in installed] == [extras[name] for name in made]
    assert [name for name, stamp in stamps.items() if stamp.exists()] == made
    assert done.stdout.splitlines()[-1] == f"verb residual_course {' '.join(words)}"


@WINDOWS
def test_pip_is_held_to_the_constraints(prepared):
    run(prepared, "lab")
    assert "-c constraints.txt -e .[lab,test]" in (prepared / "asked").read_text()


def test_what_is_installed_is_compiled_but_for_its_tests_and_what_is_no_python_is_left(course, capfd):
    folder = course.LEARNING.folder
    venv.create(folder)
    made, broken, tests = (folder / "lib" / name for name in ("made.py", "broken.py", "tests/made.py"))
    made.write_text("x = 1\n")
    broken.write_text("{{ x }} =\n")
    tests.parent.mkdir()
    tests.write_text("x = 1\n")
    course.compile_all(course.LEARNING)
    compiled = [Path(cache_from_source(str(path))).exists() for path in (made, broken, tests)]
    assert compiled == [True, False, False]
    assert capfd.readouterr() == ("      compiling, on every core\n", "")


@WINDOWS
def test_the_exit_code_of_the_verb_is_passed_on(prepared):
    assert run(prepared, "test", CODE="7").returncode == 7


def test_help_installs_nothing(checkout):
    assert "python course.py lab" in run(checkout, "--help").stdout
    assert run(checkout).returncode == 2
    assert not (checkout / ".venv").exists()


def test_it_parses_where_python_is_too_old():
    ast.parse((ROOT / "course.py").read_text(), feature_version=(3, 8))


def test_an_old_python_is_told_so(course, monkeypatch):
    monkeypatch.setattr(course, "sys", types.SimpleNamespace(version_info=(3, 8, 18), exit=sys.exit))
    monkeypatch.setattr(course, "platform", types.SimpleNamespace(python_version=lambda: "3.8.18"))
    with pytest.raises(SystemExit, match=r"^This course needs Python 3\.11 or newer, and this is 3\.8\.18\.$"):
        course.main(["lab"])

"""course.py: what it does once, and what it skips the second time."""

import ast
import shutil
import venv
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from .conftest import ROOT, WINDOWS, asked, run


@WINDOWS
def test_the_second_run_installs_nothing_and_starts_at_once(prepared):
    first = run(prepared, "build", "--check", "02", CODE="7")
    assert first.returncode == 7  # the verb's own
    assert "-c constraints.txt -e .[lab,test]" in (prepared / "asked").read_text()
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


@WINDOWS
@pytest.mark.parametrize(
    ("words", "made"),
    [
        (["test"], [".venv"]),
        (["test", "--all"], [".venv", ".venv-grading", "book", "peers"]),
        (["book"], [".venv", "book"]),
        (["grade", "out"], [".venv-grading"]),
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


def test_help_installs_nothing(checkout):
    assert "python course.py lab" in run(checkout, "--help").stdout
    assert run(checkout).returncode == 2
    assert not (checkout / ".venv").exists()


def test_it_parses_where_python_is_too_old():
    ast.parse((ROOT / "course.py").read_text(), feature_version=(3, 8))

"""course.py: what it does once, what it skips the second time, and the sentence for each thing that can go wrong."""

import ast
import errno
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
import types
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WINDOWS = pytest.mark.skipif(os.name == "nt", reason="the stand-in for Python is a script with a first line")

# Stands where .venv's Python would, and notes what it was asked; REPLY is what it says as pip, and its exit code.
STAND_IN = """#!{python}
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
    """A copy of what course.py needs."""
    for name in ("course.py", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


@pytest.fixture
def prepared(checkout):
    """The same with a stand-in for an environment's Python."""
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(STAND_IN.format(python=sys.executable, log=str(checkout / "asked")))
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


@WINDOWS
def test_the_second_run_installs_nothing_and_starts_at_once(prepared):
    first = run(prepared, "build", "--check", "02")
    assert first.stdout.splitlines()[-1] == "verb residual_edu.course build --check 02"
    assert "installed" in first.stdout
    before = (prepared / "asked").read_text().splitlines()
    again = run(prepared, "lab")
    version, verb = (prepared / "asked").read_text().splitlines()[len(before) :]  # nothing else is started
    assert version.startswith("-c") and verb.startswith("-m residual_edu.course lab")
    assert again.stdout == "verb residual_edu.course lab\n"
    assert asked(prepared).count("pip") == 1


@WINDOWS
@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_a_changed_requirement_is_installed(prepared, name):
    run(prepared, "lab")
    with (prepared / name).open("a") as file:
        file.write("\n")
    run(prepared, "lab")
    assert asked(prepared).count("pip") == 2


def test_the_learner_sees_that_something_moves(course, monkeypatch, capsys):
    slow = "import time; print('Collecting torch', flush=True); time.sleep(1.2)"
    monkeypatch.setattr(course.LEARNING, "pip", [sys.executable, "-c", slow])
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    course.install(course.LEARNING)
    shown = capsys.readouterr().out.split("\r")
    first, *middle, last = [line.split("s  ")[1].strip() for line in shown[1:]]
    assert (first, set(middle), last) == ("Starting pip", {"Collecting torch"}, "installed")
    assert len(middle) >= 2
    assert shown[-1].startswith("   1 s")


@WINDOWS
@pytest.mark.parametrize(
    ("words", "made"),
    [
        (["lab"], [".venv"]),
        (["test"], [".venv"]),
        (["test", "--all"], [".venv", ".venv-grading"]),
        (["grade", "out"], [".venv-grading"]),
        (["assignment", "out"], [".venv-grading"]),
    ],
)
def test_nbgrader_has_an_environment_of_its_own(prepared, words, made):
    shutil.copytree(prepared / ".venv", prepared / ".venv-grading")
    done = run(prepared, *words)
    installed = [line for line in (prepared / "asked").read_text().splitlines() if "pip install" in line]
    extras = {".venv": ".[lab,test]", ".venv-grading": ".[grading]"}
    assert [line.split()[-1] for line in installed] == [extras[name] for name in made]
    assert [name for name in extras if (prepared / name / "installed-by-course-py").exists()] == made
    assert done.stdout.splitlines()[-1] == f"verb residual_edu.course {' '.join(words)}"


@WINDOWS
def test_pip_is_held_to_the_constraints(prepared):
    run(prepared, "lab")
    assert "-c constraints.txt -e .[lab,test]" in (prepared / "asked").read_text()


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


@WINDOWS
@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "The disk is full"),
        ("ERROR: Could not install: [Errno 13] Permission denied: '/x'", "Cannot write into"),
        ("/x/.venv/bin/python: No module named pip", "broken: it has no pip. Delete that folder, then run the same"),
        ("Retrying: NewConnectionError: Failed to establish a new connection\nERROR: no version", "No network: pip"),
        ("Collecting torch\nERROR: no torch for this Python\n", "The installation did not work: no torch for this"),
        ("something else", "The installation did not work: something else"),
    ],
)
def test_what_pip_cannot_do_is_one_sentence(prepared, reply, expected):
    assert expected in sentence(run(prepared, "lab", REPLY=reply))
    assert reply in (prepared / ".venv" / "pip.log").read_text()
    assert run(prepared, "lab").returncode == 0  # and the next run goes on


def test_no_network(checkout):
    """A real environment and a real pip, which finds nothing behind a closed port."""
    closed = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_CONFIG_FILE": os.devnull, "PIP_RETRIES": "1"}
    done = run(checkout, "lab", PIP_EXTRA_INDEX_URL="", PIP_FIND_LINKS="", **closed)
    said = "No network: pip cannot reach the package index. Connect, then run the same command again."
    assert sentence(done) == said
    assert "Making the environment" in done.stdout and "2 GB, several more where pip brings CUDA." in done.stdout


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "The disk is full. Free at least 3 GB, several more"),
        (PermissionError(errno.EACCES, os.strerror(errno.EACCES)), "Cannot write into .* Make it yours"),
        (OSError(errno.EROFS, os.strerror(errno.EROFS)), "Cannot write into"),
        (ImportError("No module named 'venv'"), "cannot make environments.*apt install python3-venv"),
        (
            subprocess.CalledProcessError(1, ["python"], output=b"python: No module named ensurepip"),
            "cannot make environments.*apt install python3-venv",
        ),
        (
            subprocess.CalledProcessError(1, ["python"], output=b"OSError: [Errno 28] No space left on device"),
            "The disk is full",
        ),
        (OSError("something else"), "The installation did not work: something else"),
        (KeyboardInterrupt(), "Stopped. Run the same command again to go on."),
    ],
)
def test_an_environment_that_cannot_be_made_is_one_sentence_and_leaves_nothing(course, monkeypatch, error, expected):
    def fail(folder, **options):
        Path(folder).mkdir()
        raise error

    monkeypatch.setattr(venv, "create", fail)
    with pytest.raises(SystemExit, match=expected):
        course.main(["lab"])
    assert not course.LEARNING.folder.exists()


def test_a_full_disk_while_the_stamp_is_written(course, monkeypatch):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(course, "create", lambda env: None)
    monkeypatch.setattr(course, "fingerprint", lambda env: "stamp")
    monkeypatch.setattr(course, "install", lambda env: (_ for _ in ()).throw(full))
    with pytest.raises(SystemExit, match="The disk is full"):
        course.main(["lab"])


@WINDOWS
def test_an_environment_whose_python_has_moved(prepared):
    python = prepared / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to(prepared / "gone")
    said = f"The environment {prepared / '.venv'} is broken: its Python is missing or does not start. "
    assert sentence(run(prepared, "lab")) == said + "Delete that folder, then run the same command again."


@WINDOWS
def test_an_environment_whose_python_does_not_start(prepared):
    (prepared / ".venv" / "bin" / "python").write_text("#!/bin/sh\nexit 127\n")
    assert "broken: its Python is missing or does not start" in sentence(run(prepared, "lab"))


def test_a_file_where_the_environment_should_be(checkout):
    (checkout / ".venv").write_text("")
    assert "broken: its Python is missing or does not start" in sentence(run(checkout, "lab"))


@WINDOWS
def test_ctrl_c_while_it_installs(prepared):
    command = [sys.executable, prepared / "course.py", "lab"]
    done = subprocess.Popen(
        command,
        env={**os.environ, "PAUSE": "60"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not (prepared / "asked").exists() or "pip" not in asked(prepared):
        time.sleep(0.05)
    time.sleep(0.3)
    os.killpg(done.pid, signal.SIGINT)
    out, err = done.communicate(timeout=100)
    assert done.returncode == 1
    assert err.strip() == "Stopped. Run the same command again to go on."
    assert "Traceback" not in out

"""course.py: what it does once and skips the second time, and one sentence for each thing that can go wrong."""

import ast
import errno
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import venv
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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
    python, script = checkout / ".venv" / "bin" / "python", checkout / "stand_in.py"
    python.parent.mkdir(parents=True)
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
    assert done.returncode not in (0, None) and "Traceback" not in done.stdout + done.stderr
    (line,) = done.stderr.strip().splitlines()
    return line


def asked(folder):
    return (folder / "asked").read_text().splitlines()


def count(folder, word):
    return [line.split()[1] for line in asked(folder)].count(word)


@WINDOWS
def test_the_second_run_installs_nothing_unless_a_requirement_has_changed(prepared):
    first = run(prepared, "build", "--check", "02", CODE="7")
    assert first.returncode == 7 and "installed" in first.stdout  # the verb's own code
    assert first.stdout.splitlines()[-1] == "verb residual_course build --check 02"
    assert any("-c constraints.txt -e .[lab,test]" in line for line in asked(prepared))
    before = len(asked(prepared))
    assert run(prepared, "lab").stdout == "verb residual_course lab\n"
    version, verb = asked(prepared)[before:]  # nothing else is started
    assert version.startswith("-c") and verb.startswith("-m residual_course lab")
    assert count(prepared, "pip") == count(prepared, "compileall") == 1
    for times, name in enumerate(("pyproject.toml", "constraints.txt"), 2):
        with (prepared / name).open("a") as file:
            file.write("\n")
        run(prepared, "lab")
        assert count(prepared, "pip") == times


PROXY, STAMP = "configurable-http-proxy@4.6.3", "installed-by-course-py"
STAMPS = {name: (name, STAMP) for name in (".venv", ".venv-grading")}
STAMPS |= {name: (".venv", f"{STAMP}-{name}") for name in ("book", "peers")}
STAMPS |= {name: (".venv-grading", f"{STAMP}-{name}") for name in ("hub", "proxy")}


@WINDOWS
def test_what_is_there_is_not_installed_again(prepared):
    run(prepared, "lab")
    run(prepared, "book")
    run(prepared, "book")
    assert [line.split()[-1] for line in asked(prepared) if "-e" in line.split()] == [".[lab,test]", ".[book]"]


@WINDOWS
@pytest.mark.parametrize(
    ("words", "commands", "made"),
    [
        (["test", "--all"], [".[lab,test,book,peers]", ".[grading,hub]", PROXY], [*STAMPS]),
        (["book"], [".[lab,test,book]"], [".venv", "book"]),
        (["grade", "out"], [".[grading]"], [".venv-grading"]),
        (["hub", "--port=8001"], [".[grading,hub]", PROXY], [".venv-grading", "hub", "proxy"]),
    ],
)
def test_nbgrader_has_an_environment_of_its_own_and_the_rest_comes_when_it_is_needed(prepared, words, commands, made):
    shutil.copytree(prepared / ".venv", prepared / ".venv-grading")
    npm = shutil.copy(prepared / ".venv" / "bin" / "python", prepared / "npm")
    done = run(prepared, *words, PATH=f"{npm.parent}{os.pathsep}{os.environ['PATH']}")
    installed = [line for line in asked(prepared) if re.match("-m pip install -|install", line)]
    assert sorted(line.split()[-1] for line in installed) == sorted(commands)  # two folders are made at once
    assert [name for name, (folder, file) in STAMPS.items() if (prepared / folder / file).exists()] == made
    hub = f"jupyterhub --config {prepared / 'docs' / 'hub' / 'jupyterhub_config.py'}"
    verb = " ".join(["residual_course", *words]).replace("residual_course hub", hub)
    assert done.stdout.splitlines()[-1] == f"verb {verb}"


@WINDOWS
def test_where_npm_is_missing_the_hub_says_so(prepared):
    shutil.copytree(prepared / ".venv", prepared / ".venv-grading")
    assert "needs npm. Install it" in sentence(run(prepared, "hub", PATH="/nowhere"))


def test_help_installs_nothing_and_an_old_python_can_read_it(checkout):
    assert "python course.py lab" in run(checkout, "--help").stdout
    assert run(checkout).returncode == 2 and not (checkout / ".venv").exists()
    ast.parse((ROOT / "course.py").read_text(), feature_version=(3, 8))


@WINDOWS
@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "The disk is full"),
        ("ERROR: Could not install: [Errno 13] Permission denied: '/x'", "Cannot write into"),
        ("/x/.venv/bin/python: No module named pip", "broken: it has no pip. Delete that folder, then run the same"),
        ("Retrying: NewConnectionError: Failed to establish a new connection\nERROR: no version", "No network: pip"),
        ("Collecting torch\nERROR: no torch for this Python\n", "The installation did not work: no torch for this"),
    ],
)
def test_what_pip_cannot_do_is_one_sentence(prepared, reply, expected):
    assert expected in sentence(run(prepared, "lab", REPLY=reply))
    assert reply in (prepared / ".venv" / "pip.log").read_text()
    assert run(prepared, "lab").returncode == 0  # and the next run goes on


NO_PIP = subprocess.CalledProcessError(1, ["python"], output=b"python: No module named ensurepip")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "The disk is full. Free at least 3 GB, several more"),
        (PermissionError(errno.EACCES, os.strerror(errno.EACCES)), "Cannot write into .* Make it yours"),
        (NO_PIP, "cannot make environments.*apt install python3-venv"),
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


def test_settings_that_would_divert_pip_are_left_out_and_where_it_finds_packages_is_not(course, monkeypatch):
    names = ["PIP_USER", "PIP_TARGET", "PIP_REQUIRE_VIRTUALENV", "PIP_INDEX_URL"]
    for name in names:
        monkeypatch.setenv(name, "1")
    said = "import os, sys; sys.exit(str(sorted((k, v) for k, v in os.environ.items() if k in sys.argv)))"
    monkeypatch.setattr(course.LEARNING, "log", course.ROOT / "log")
    with pytest.raises(SystemExit, match=r"\[\('PIP_INDEX_URL', '1'\), \('PIP_USER', '0'\)\]"):
        course.install([sys.executable, "-c", said, *names], course.LEARNING)


@WINDOWS
def test_an_environment_whose_python_is_missing_or_does_not_start_is_named(prepared):
    python = prepared / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to(prepared / "gone")
    said = f"The environment {prepared / '.venv'} is broken: its Python is missing or does not start. "
    said += "Delete that folder, then run the same command again."
    assert sentence(run(prepared, "lab")) == said
    python.unlink()
    python.write_text("#!/bin/sh\nexit 127\n")
    assert sentence(run(prepared, "lab")) == said
    shutil.rmtree(prepared / ".venv")
    (prepared / ".venv").write_text("")
    assert sentence(run(prepared, "lab")) == said


@WINDOWS
def test_ctrl_c_while_it_installs(prepared):
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background job ignores it
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command, environment = [sys.executable, prepared / "course.py", "lab"], {**os.environ, "PAUSE": "60"}
    done = subprocess.Popen(command, env=environment, **pipes, start_new_session=True, preexec_fn=heard)
    while not (prepared / "asked").exists() or not count(prepared, "pip"):
        time.sleep(0.05)
    time.sleep(0.3)
    os.killpg(done.pid, signal.SIGINT)
    out, err = done.communicate(timeout=100)
    assert done.returncode == 1 and "Traceback" not in out
    assert err.strip() == "Stopped. Run the same command again to go on."

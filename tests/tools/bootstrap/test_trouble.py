"""course.py: one sentence for each thing that can go wrong."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
import venv
from functools import partial
from pathlib import Path

import pytest

from .conftest import WINDOWS, asked, run, sentence


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


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "The disk is full. Free at least 3 GB, several more"),
        (PermissionError(errno.EACCES, os.strerror(errno.EACCES)), "Cannot write into .* Make it yours"),
        (ImportError("No module named 'venv'"), "cannot make environments.*apt install python3-venv"),
        (
            subprocess.CalledProcessError(1, ["python"], output=b"python: No module named ensurepip"),
            "cannot make environments.*apt install python3-venv",
        ),
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


@pytest.mark.parametrize("name", ["USER", "TARGET", "REQUIRE_VIRTUALENV"])
def test_settings_that_would_divert_pip_are_left_out_and_where_it_finds_packages_is_not(course, monkeypatch, name):
    monkeypatch.setenv(f"PIP_{name}", "1")
    monkeypatch.setenv("PIP_INDEX_URL", "x")
    said = "import os, sys; sys.exit(str({k: v for k, v in os.environ.items() if k in sys.argv}))"
    monkeypatch.setattr(
        course.LEARNING, "pip", [sys.executable, "-c", said, f"PIP_{name}", "PIP_INDEX_URL", "PIP_USER"]
    )
    monkeypatch.setattr(course.LEARNING, "log", course.ROOT / "log")
    with pytest.raises(SystemExit, match="PIP_INDEX_URL") as stopped:
        course.install(course.LEARNING)
    assert "'PIP_INDEX_URL': 'x'" in str(stopped.value) and "'PIP_USER': '0'" in str(stopped.value)
    assert f"'PIP_{name}': '1'" not in str(stopped.value)


@WINDOWS
def test_an_environment_whose_python_has_moved(prepared):
    python = prepared / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to(prepared / "gone")
    said = f"The environment {prepared / '.venv'} is broken: its Python is missing or does not start. "
    assert sentence(run(prepared, "lab")) == said + "Delete that folder, then run the same command again."
    python.unlink()
    python.write_text("#!/bin/sh\nexit 127\n")
    assert "broken: its Python is missing or does not start" in sentence(run(prepared, "lab"))
    shutil.rmtree(prepared / ".venv")
    (prepared / ".venv").write_text("")
    assert "broken: its Python is missing or does not start" in sentence(run(prepared, "lab"))


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
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
    )
    while not (prepared / "asked").exists() or "pip" not in asked(prepared):
        time.sleep(0.05)
    time.sleep(0.3)
    os.killpg(done.pid, signal.SIGINT)
    out, err = done.communicate(timeout=100)
    assert done.returncode == 1
    assert err.strip() == "Stopped. Run the same command again to go on."
    assert "Traceback" not in out

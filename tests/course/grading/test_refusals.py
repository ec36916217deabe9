"""What is missing, in the way or stopped is a sentence, and nothing is lost."""

import os
import shutil
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest

from .conftest import ROOT, rows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def without_bubblewrap(tmp_path):
    """A path with everything but bwrap."""
    (tmp_path / "bin").mkdir()
    for tool in ("sh", "setpriv", "prlimit", "du", "rm"):
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
    return str(tmp_path / "bin")


def test_without_bubblewrap_it_refuses_and_says_how_to_get_it(small, residual_edu, tmp_path_factory):
    path = without_bubblewrap(tmp_path_factory.mktemp("path"))
    done = residual_edu("grade", small, PATH=path)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        "inside bubblewrap, and there is no bwrap here. Install it (Debian and Ubuntu: apt install bubblewrap"
        in done.stderr
    )
    assert not (small / "scores.csv").exists()
    done = residual_edu("grade", small, "--unconfined", PATH=path)
    assert done.returncode == 0, done.stderr
    assert (rows(small / "scores.csv")["ada"]["points"], rows(small / "scores.csv")["ada"]["confined"]) == ("3.0", "no")


def test_where_bubblewrap_is_forbidden_it_refuses(small, residual_edu, tmp_path_factory):
    path = Path(without_bubblewrap(tmp_path_factory.mktemp("path")))
    (path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    (path / "bwrap").chmod(0o755)
    done = residual_edu("grade", small, PATH=str(path))
    assert done.returncode == 2
    assert "it does not work here (bwrap: No permissions to create new namespace)" in done.stderr


@pytest.mark.parametrize(
    ("change", "words", "sentence"),
    [
        (lambda out: (out / "nbgrader_config.py").unlink(), [], "is no course folder: `residual-edu assignment"),
        (lambda out: shutil.rmtree(out / "submitted"), [], "Nobody has handed in: "),
        (lambda out: None, ["hw_other"], "There is no assignment 'hw_other' in"),
        (lambda out: None, ["--due", "tomorrow"], "--due 'tomorrow': there is no assignment 'tomorrow' in"),
        (lambda out: (out / "scores.csv").mkdir(), [], "scores.csv"),
        (lambda out: broken_source(out), [], "nbgrader does not take"),
    ],
)
def test_what_is_missing_or_in_the_way_is_a_sentence(small, residual_edu, change, words, sentence):
    change(small)
    done = residual_edu("grade", small, *words)
    assert done.returncode == 2 and sentence in done.stderr, done.stdout + done.stderr
    assert "Traceback" not in done.stderr + done.stdout


def broken_source(out):
    path = out / "source" / "hw_small" / "hw_small.ipynb"
    path.write_text(path.read_text().replace("### END SOLUTION", "### END"))


def test_two_runs_on_one_folder_and_an_interrupt(small, residual_edu, python):
    for name in ("bob", "cyd"):
        shutil.copytree(small / "submitted" / "ada", small / "submitted" / name)
    command = [python, "-m", "residual_course", "grade", small, "--jobs", "1"]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background job ignores an interrupt
    first = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, preexec_fn=heard)
    line = ""
    while "hw_small: 3 of 3" not in line:
        line = first.stdout.readline()
    second = residual_edu("grade", small)
    assert second.returncode == 2 and "Another `residual-edu grade` works on" in second.stderr
    first.send_signal(signal.SIGINT)
    rest, _ = first.communicate(timeout=120)
    assert first.returncode == 130 and "Stopped. Run the same command again to go on." in rest
    time.sleep(1)
    assert "/tmp/connection.json" not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    stamp = os.stat(small / "feedback" / "ada" / "hw_small").st_mtime_ns
    done = residual_edu("grade", small)
    assert done.returncode == 0 and done.stdout.count("3 of 3") == 3
    assert os.stat(small / "feedback" / "ada" / "hw_small").st_mtime_ns == stamp

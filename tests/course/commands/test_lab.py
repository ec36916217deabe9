"""``residual-edu lab`` starts JupyterLab on the first unfinished copy, loses nothing, and asks nothing."""

import errno
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_notebook

from residual_course.commands import copies, lab
from residual_course.commands.checkout import Refusal


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with an empty first lesson, as the current folder."""
    (tmp_path / "notebooks" / "source").mkdir(parents=True)
    (tmp_path / "notebooks" / "source" / lab.FIRST).with_suffix(".py").touch()
    nbformat.write(new_notebook(), tmp_path / "notebooks" / lab.FIRST)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "RUNTIME"))
    return tmp_path


class Started:
    """Stands in for a started process: keeps how it was started, and is interrupted once before it ends."""

    def __init__(self, command, env):
        self.command, self.env, self.interrupts = command, env, 1

    def wait(self):
        self.interrupts -= 1
        if self.interrupts == 0:
            raise KeyboardInterrupt
        return 3


@pytest.fixture
def started(checkout, monkeypatch, as_installed):
    made = []
    monkeypatch.setattr(
        lab.subprocess, "Popen", lambda *words, **more: made.append(Started(*words, **more)) or made[-1]
    )
    return made


def test_the_first_lesson_is_there():
    assert (Path(__file__).parents[3] / "notebooks" / lab.FIRST).exists()


def test_it_opens_the_first_copy_and_hands_the_rest_on(started, checkout, capsys):
    assert lab.run(["--no-browser", "--port=8899", "--collaborative"]) == 3  # its exit code, Ctrl-C notwithstanding
    (process,) = started
    assert process.command[:3] == [sys.executable, "-m", "jupyterlab"]
    assert f"--ServerApp.root_dir={checkout}" in process.command  # with docs/glossary.md, which lessons link to
    assert f"--LabApp.default_url=/lab/tree/my_lessons/{lab.FIRST}" in process.command
    assert process.command[-3:] == ["--collaborative", "--no-browser", "--port=8899"]
    assert (checkout / "my_lessons" / lab.FIRST).exists()
    assert capsys.readouterr().out == f"Opening {Path('my_lessons', lab.FIRST)}\n"


def test_help_names_what_it_takes(capsys):
    with pytest.raises(SystemExit, match="0"):
        lab.run(["--help"])
    said = capsys.readouterr().out
    assert [word for word in ("--no-browser", "--port", "--fresh", "--edit") if word not in said] == []


def test_who_changes_the_course_opens_its_own_notebooks(started, checkout):
    lab.run(["--edit", "--no-browser"])
    (process,) = started
    assert f"--LabApp.default_url=/lab/tree/notebooks/{lab.FIRST}" in process.command
    assert process.command[-1] == "--no-browser"
    assert not (checkout / "my_lessons").exists()


def test_a_lesson_started_anew_is_opened_and_the_old_one_kept(started, checkout, capsys):
    lab.run([])
    lab.run(["--fresh", "00", "--fresh=00_res"])
    assert "00_residual_connection.ipynb is new; the one you worked in is now" in capsys.readouterr().out
    assert len(list((checkout / "my_lessons").glob("*.ipynb"))) == 2


@pytest.mark.parametrize("words", [["--edit", "--fresh", "00"], ["--fresh"], ["02"]])
def test_words_that_do_not_fit_show_the_usage(started, words, capsys):
    with pytest.raises(SystemExit):
        lab.run(words)
    assert "usage: residual-edu lab" in capsys.readouterr().err
    assert not started


def test_an_unknown_lesson_changes_nothing(started, checkout):
    with pytest.raises(Refusal, match="There is no lesson '77'"):
        lab.run(["--fresh", "77"])
    assert not started
    assert len(list((checkout / "my_lessons").glob("*.ipynb"))) == 1


def test_a_file_where_the_folder_should_be_is_a_sentence(started, checkout):
    (checkout / "my_lessons").write_text("mine")
    with pytest.raises(Refusal, match=r"my_lessons.*: a file stands where a folder should be; rename it"):
        lab.run([])
    assert (checkout / "my_lessons").read_text() == "mine"


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.ENOSPC, "the disk is full; free some space, then run the same command again"),
        (errno.EROFS, "it cannot be written; make it yours, or copy the checkout to a folder of your own"),
        (errno.EACCES, "it cannot be written; make it yours"),
    ],
)
def test_a_folder_that_takes_nothing_is_a_sentence(started, checkout, monkeypatch, number, sentence):
    def refuse(path, text):
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(copies.progress, "replace", refuse)
    with pytest.raises(Refusal, match=f"my_lessons.*: {sentence}"):
        lab.run([])
    assert not started


def test_a_second_one_on_the_same_folder_is_refused_with_the_address_of_the_first(started, checkout):
    lab.run([])
    (checkout / "RUNTIME").mkdir()
    running = {"pid": os.getpid(), "root_dir": str(checkout), "url": "http://localhost:8888/"}
    running |= {"token": "secret", "port": 8888, "hostname": "localhost"}
    (checkout / "RUNTIME" / "jpserver-1.json").write_text(json.dumps(running))
    said = r"JupyterLab already runs on .*: open \S+:8888/lab/tree/my_lessons.token=secret, or stop it first"
    with pytest.raises(Refusal, match=said):
        lab.run(["--fresh", "00"])
    assert len(started) == len(list((checkout / "my_lessons").glob("*.ipynb"))) == 1
    lab.run(["--edit"])  # opens other files
    assert len(started) == 2


def test_it_takes_one_thread_unless_told_otherwise(started, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    lab.run([])
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    lab.run([])
    assert [process.env["OMP_NUM_THREADS"] for process in started] == ["1", "4"]


def test_a_lesson_that_was_not_built(checkout):
    (checkout / "notebooks" / lab.FIRST).unlink()
    with pytest.raises(
        Refusal, match=r"00_residual_connection\.ipynb: it is missing; make it first: residual-edu build"
    ):
        lab.run([])
    with pytest.raises(
        Refusal, match=r"There is no .*00_residual_connection\.ipynb; make it first: residual-edu build"
    ):
        lab.run(["--edit"])


@pytest.mark.parametrize("text", ["{\n<<<<<<< HEAD\n}", '{"cells": [\n"<<<<<<< local\\n"]}', "", "[]", '{"cells": 3}'])
def test_a_notebook_of_the_course_that_a_merge_broke_is_named_and_no_copy_is_moved(started, checkout, text):
    lab.run([])
    before = (checkout / "my_lessons" / lab.FIRST).read_bytes()
    (checkout / "notebooks" / lab.FIRST).write_text(text)
    said = r"00_residual_connection\.ipynb" + (
        ", line 2: a merge left its mark here" if "<<" in text else " cannot be read"
    )
    for words in ([], ["--fresh", "00"]):
        with pytest.raises(Refusal, match=said):
            lab.run(words)
    assert (checkout / "my_lessons" / lab.FIRST).read_bytes() == before
    assert len(list((checkout / "my_lessons").glob("*.ipynb"))) == len(started) == 1


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="ends the server by its process group")
def test_it_really_starts_and_asks_nothing(checkout):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port, token = free.getsockname()[1], secrets.token_hex(16)
    words = ["--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}"]
    server = subprocess.Popen(
        [sys.executable, "-m", "residual_course", "lab", *words, f"--IdentityProvider.token={token}"],
        env={**os.environ, **{f"JUPYTER_{name}_DIR": str(checkout / name) for name in ("CONFIG", "RUNTIME", "DATA")}},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    visited = []

    def answer(path):
        """What the server answers, once it does."""
        end = time.monotonic() + 60
        while server.poll() is None and time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}?token={token}", timeout=10) as reply:
                    visited.append(reply.url)
                    return reply.read().decode()
            except urllib.error.URLError as error:
                if not isinstance(error.reason, ConnectionError):
                    raise
                time.sleep(0.2)
        return pytest.fail("the server did not start")

    try:
        assert lab.FIRST in answer("api/contents/my_lessons")
        assert "<title>JupyterLab</title>" in answer("")
        assert visited[-1].partition("?")[0].endswith(f"/lab/tree/my_lessons/{lab.FIRST}")
        news = json.loads(answer("lab/api/settings/@jupyterlab/apputils-extension:notification"))
        assert news["schema"]["properties"]["fetchNews"]["default"] == "false"
        assert news["schema"]["properties"]["checkForUpdates"]["default"] is False
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()

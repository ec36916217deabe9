"""``residual-edu lab`` starts JupyterLab on the first unfinished copy, loses nothing, and asks nothing."""

import json
import os
import socket
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_notebook

from residual_course.commands import lab
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


def copies_in(checkout):
    return list((checkout / "my_lessons").glob("*.ipynb"))


def test_it_opens_the_first_copy_and_hands_the_rest_on(started, checkout, capsys, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert lab.run(["--no-browser", "--port=8899", "--collaborative"]) == 3  # its exit code, Ctrl-C notwithstanding
    assert capsys.readouterr().out == f"Opening {Path('my_lessons', lab.FIRST)}\n"
    assert (checkout / "my_lessons" / lab.FIRST).exists()
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    lab.run(["--fresh", "00", "--fresh=00_res"])
    assert "00_residual_connection.ipynb is new; the one you worked in is now" in capsys.readouterr().out
    assert len(copies_in(checkout)) == 2
    first, second = started
    assert first.command[:3] == [sys.executable, "-m", "jupyterlab"]
    assert f"--ServerApp.root_dir={checkout}" in first.command  # with docs/glossary.md, which lessons link to
    assert f"--LabApp.default_url=/lab/tree/my_lessons/{lab.FIRST}" in first.command
    assert first.command[-3:] == ["--collaborative", "--no-browser", "--port=8899"]
    assert [process.env["OMP_NUM_THREADS"] for process in (first, second)] == ["1", "4"]
    asks = json.loads((lab.SETTINGS / "overrides.json").read_text())["@jupyterlab/apputils-extension:notification"]
    assert asks == {"fetchNews": "false", "checkForUpdates": False}


def test_who_changes_the_course_opens_its_own_notebooks(started, checkout):
    lab.run(["--edit", "--no-browser"])
    assert f"--LabApp.default_url=/lab/tree/notebooks/{lab.FIRST}" in started[0].command
    assert started[0].command[-1] == "--no-browser" and not (checkout / "my_lessons").exists()


@pytest.mark.parametrize("words", [["--edit", "--fresh", "00"], ["--fresh"], ["02"]])
def test_words_that_do_not_fit_show_the_usage(started, words, capsys):
    with pytest.raises(SystemExit):
        lab.run(words)
    assert "usage: residual-edu lab" in capsys.readouterr().err and not started


def test_what_is_missing_or_in_the_way_is_a_sentence_and_stays(started, checkout):
    (checkout / "my_lessons").write_text("mine")
    with pytest.raises(Refusal, match=r"my_lessons.*: a file stands where a folder should be; rename it"):
        lab.run([])
    assert (checkout / "my_lessons").read_text() == "mine"
    for target in ("nowhere", "my_lessons", "notebooks/source/00_residual_connection.py"):
        (checkout / "my_lessons").unlink()
        (checkout / "my_lessons").symlink_to(target)
        with pytest.raises(Refusal, match=f"my_lessons is a link to {target}, which is no folder: make it, or remove"):
            lab.run([])
    (checkout / "my_lessons").unlink()
    with pytest.raises(Refusal, match="There is no lesson '77'"):
        lab.run(["--fresh", "77"])
    (checkout / "my_lessons" / lab.FIRST).unlink()
    (checkout / "notebooks" / lab.FIRST).unlink()
    for words, said in (([], r"_connection\.ipynb: it is missing; make"), (["--edit"], r"There is no .*\.ipynb; make")):
        with pytest.raises(Refusal, match=f"{said} it first: residual-edu build"):
            lab.run(words)
    assert not started


def test_a_second_one_on_the_same_folder_is_refused_with_the_address_of_the_first(started, checkout):
    lab.run([])
    with socket.create_server(("localhost", 0)) as server:
        note_of(checkout, server.getsockname()[1])
        said = r"JupyterLab already runs on .*: open \S+/lab/tree/my_lessons.token=secret, or stop it .*server-1.json"
        with pytest.raises(Refusal, match=said):
            lab.run(["--fresh", "00"])
        assert len(started) == len(copies_in(checkout)) == 1
        lab.run(["--edit"])  # opens other files
    assert len(started) == 2
    lab.run([])  # nobody answers at that port now, whoever has the number of its process
    assert len(started) == 3


def note_of(checkout, port):
    """Write what a server notes of itself, and notes of others that are broken."""
    (checkout / "RUNTIME").mkdir()
    running = {"pid": os.getpid(), "root_dir": str(checkout), "url": f"http://localhost:{port}/"}
    whole = json.dumps(running | {"token": "secret", "port": port})
    for number, data in enumerate([b"\xff", whole.encode(), b"{", b"[]", b"{}"]):
        (checkout / "RUNTIME" / f"jpserver-{number}.json").write_bytes(data)


@pytest.mark.parametrize("text", ["{\n<<<<<<< HEAD\n}", '{"cells": 3}'])
def test_a_notebook_of_the_course_that_a_merge_broke_is_named_and_no_copy_is_moved(started, checkout, text):
    lab.run([])
    before = (checkout / "my_lessons" / lab.FIRST).read_bytes()
    (checkout / "notebooks" / lab.FIRST).write_text(text)
    said = ", line 2: a merge left its mark here" if "<<" in text else " cannot be read"
    for words in ([], ["--fresh", "00"]):
        with pytest.raises(Refusal, match=rf"00_residual_connection\.ipynb{said}"):
            lab.run(words)
    assert (checkout / "my_lessons" / lab.FIRST).read_bytes() == before
    assert len(copies_in(checkout)) == len(started) == 1

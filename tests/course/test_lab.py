"""``residual-edu lab`` starts JupyterLab on the first lesson and asks nothing."""

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

from residual_edu.course import lab
from residual_edu.course.checkout import Refusal


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with an empty first lesson, as the current folder."""
    (tmp_path / "notebooks" / "source").mkdir(parents=True)
    nbformat.write(new_notebook(), tmp_path / "notebooks" / lab.FIRST)
    monkeypatch.chdir(tmp_path)
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
    assert (Path(__file__).parents[2] / "notebooks" / lab.FIRST).exists()


def test_it_opens_the_first_lesson_and_hands_the_rest_on(started, checkout):
    assert lab.run(["--no-browser", "--port", "8899"]) == 3  # its exit code, Ctrl-C notwithstanding
    (process,) = started
    assert process.command[:3] == [sys.executable, "-m", "jupyterlab"]
    assert f"--ServerApp.root_dir={checkout / 'notebooks'}" in process.command
    assert f"--LabApp.default_url=/lab/tree/{lab.FIRST}" in process.command
    assert process.command[-3:] == ["--no-browser", "--port", "8899"]


def test_it_takes_one_thread_unless_told_otherwise(started, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    lab.run([])
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    lab.run([])
    assert [process.env["OMP_NUM_THREADS"] for process in started] == ["1", "4"]


def test_a_lesson_that_was_not_built(checkout):
    (checkout / "notebooks" / lab.FIRST).unlink()
    with pytest.raises(
        Refusal, match=r"There is no .*00_residual_connection\.ipynb; make it first: residual-edu build"
    ):
        lab.run([])


@pytest.mark.skipif(os.name == "nt", reason="ends the server by its process group")
def test_it_really_starts_and_asks_nothing(checkout):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port, token = free.getsockname()[1], secrets.token_hex(16)
    words = ["--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}"]
    server = subprocess.Popen(
        [sys.executable, "-m", "residual_edu.course", "lab", *words, f"--IdentityProvider.token={token}"],
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
        assert lab.FIRST in answer("api/contents")
        assert "<title>JupyterLab</title>" in answer("")
        assert visited[-1].partition("?")[0].endswith(f"/lab/tree/{lab.FIRST}")
        news = json.loads(answer("lab/api/settings/@jupyterlab/apputils-extension:notification"))
        assert news["schema"]["properties"]["fetchNews"]["default"] == "false"
        assert news["schema"]["properties"]["checkForUpdates"]["default"] is False
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()

"""Answers are kept beside the lessons and nowhere else, and nothing that goes wrong stops a lesson."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from residual_course import progress

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty ``my_lessons``, as the current folder of a session in which answers are kept."""
    made = tmp_path / "my_lessons"
    (made / "homework").mkdir(parents=True)
    monkeypatch.chdir(made)
    monkeypatch.delenv("RESIDUAL_EDU_STRICT", raising=False)
    return made


def test_what_was_kept_is_recalled(folder, monkeypatch):
    assert progress.recall("predictions", "Is 1 < 2?") is None
    assert progress.keep("predictions", "Is 1 < 2?", "yes") == ""
    assert progress.keep("predictions", "Größe?", "3/16") == ""
    assert progress.keep("exercises", "layer_norm", True) == ""
    assert progress.keep("predictions", "Is 1 < 2?", "no") == ""  # the last one counts
    assert progress.recall("predictions", "Is 1 < 2?") == "no"
    kept = json.loads((folder / "answers.json").read_text(encoding="utf-8"))
    monkeypatch.chdir(folder / "homework")  # whose answers stand in the same file
    assert progress.recall("predictions", "Is 1 < 2?") == "no"
    predictions = {"Is 1 < 2?": "no", "Größe?": "3/16"}
    assert kept == {"predictions": predictions, "measured": {}, "exercises": {"layer_norm": True}}


@pytest.mark.parametrize(("lessons", "session"), [("notebooks", "homework"), ("handout", "")])
def test_beside_the_lessons_of_a_clone_or_a_handout_answers_are_kept_and_git_sees_none(
    tmp_path, folder, monkeypatch, lessons, session
):
    (tmp_path / lessons / "homework").mkdir(parents=True)
    shutil.copy(ROOT / "notebooks" / "00_residual_connection.ipynb", tmp_path / lessons)
    shutil.copy(ROOT / ".gitignore", tmp_path)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / lessons / "answers.json").write_text("{")
    monkeypatch.chdir(tmp_path / lessons / session)
    assert progress.keep("exercises", "faults", True).startswith(f"{lessons}/answers.json could not be read: it is now")
    assert progress.recall("exercises", "faults") is True
    assert progress.load(tmp_path / lessons)["exercises"] == {"faults": True}
    status = ["git", "status", "--porcelain", "--untracked-files=all"]
    seen = subprocess.run(status, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert seen.split() == ["??", ".gitignore", "??", f"{lessons}/00_residual_connection.ipynb"]


@pytest.mark.parametrize("session", ["", "homework"])
def test_in_a_my_lessons_that_is_a_link_to_elsewhere_answers_are_kept(tmp_path, monkeypatch, session):
    assert progress.COPIES == ROOT / "my_lessons"
    (tmp_path / "drive" / "homework").mkdir(parents=True)
    (tmp_path / "my_lessons").symlink_to(tmp_path / "drive")
    monkeypatch.setattr(progress, "COPIES", tmp_path / "my_lessons")
    monkeypatch.delenv("RESIDUAL_EDU_STRICT", raising=False)
    monkeypatch.chdir(tmp_path / "my_lessons" / session)
    assert progress.keep("exercises", "layer_norm", True) == ""
    assert progress.load(tmp_path / "drive")["exercises"] == {"layer_norm": True}


def test_beside_another_course_s_notebooks_its_own_file_is_left_alone(tmp_path, folder, monkeypatch):
    (tmp_path / "01_intro.ipynb").write_text('{"cells": []}')
    (tmp_path / "answers.json").write_text('["theirs"]')
    monkeypatch.chdir(tmp_path)
    assert progress.keep("predictions", "q", "a") == ""
    assert (tmp_path / "answers.json").read_text() == '["theirs"]'


@pytest.mark.parametrize("where", ["notebooks", "my_lessons/homework/deeper", "gone", "my_lessons"])
def test_elsewhere_and_in_builds_nothing_is_written(folder, monkeypatch, where):
    there = folder.parent / where
    there.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(there)
    monkeypatch.setenv("RESIDUAL_EDU_STRICT", "1" if where == "my_lessons" else "")
    if where == "gone":
        there.rmdir()
    assert progress.keep("predictions", "q", "a") == ""
    assert where == "my_lessons" or progress.recall("predictions", "q") == "a"  # as long as this session lasts
    assert not list(folder.parent.rglob("*.json"))


BROKEN = ["", "[1]", '{"predictions": []}', "\udcff", "[" * 100_000]


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_file_is_put_aside_and_nothing_in_it_is_lost(folder, text):
    data = text.encode(errors="surrogateescape")
    (folder / "answers.json").write_bytes(data)
    assert progress.recall("predictions", "q") is None
    said = "my_lessons/answers.json could not be read: it is now called 'answers (unreadable 1).json', and answers"
    assert progress.keep("predictions", "q", "a").startswith(said)
    assert (folder / "answers (unreadable 1).json").read_bytes() == data
    assert progress.recall("predictions", "q") == "a"
    (folder / "answers.json").write_text("{")
    assert "'answers (unreadable 2).json'" in progress.keep("predictions", "q", "b")
    (folder / "answers.json").unlink()
    (folder / "answers.json").mkdir()
    assert "Not kept in my_lessons/answers.json" in progress.keep("predictions", "q", "a")


def test_a_read_only_file_is_a_sentence_and_stays_as_it_is(folder):
    progress.keep("predictions", "q", "a")
    (folder / "answers.json").chmod(0o444)
    said = "Not kept in my_lessons/answers.json (the file is read-only); the lesson goes on, but a restart will forget"
    assert progress.keep("predictions", "q", "b").startswith(said)
    assert progress.recall("predictions", "q") == "a"


def test_a_disk_that_takes_nothing_is_a_sentence_and_leaves_the_file_whole(folder, monkeypatch):
    progress.keep("predictions", "q", "a")

    def refuse(path, text, **options):
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))  # half way
        raise OSError(errno.ENOSPC, "the disk is full", str(path))

    monkeypatch.setattr(Path, "write_text", refuse)
    assert progress.keep("predictions", "q", "b").startswith("Not kept in my_lessons/answers.json (the disk is full)")
    assert progress.recall("predictions", "q") == "a"
    assert [path.name for path in folder.glob("*answers.json*")] == ["answers.json"]


MANY = """
import sys
from residual_course import progress
for number in range(20):
    assert progress.keep("predictions", f"{sys.argv[1]} {number}", "a") == ""
"""


def test_two_notebooks_at_once_lose_nothing(folder):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    both = [subprocess.Popen([sys.executable, "-c", MANY, name], env=environment) for name in ("one", "two")]
    assert [process.wait() for process in both] == [0, 0]
    assert len(progress.load(folder)["predictions"]) == 40


def test_another_notebook_that_holds_the_file_is_waited_for_and_then_a_sentence(folder, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.1)
    with progress.FileLock(folder / ".answers.lock", is_singleton=False):
        assert progress.keep("predictions", "q", "a").startswith("Not kept in my_lessons/answers.json")

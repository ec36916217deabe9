import json
import os

import pytest

from residual_edu.course.checkout import with_homework
from residual_edu.course.grade import submission
from residual_edu.course.grade.assignment import read_assignment
from residual_edu.course.grade.submission import read_submission

ANSWERS = {"scale": "def scale(): ...", "center": "x = 1"}


@pytest.fixture
def assignment(room):
    return read_assignment(with_homework(room)[0])


def test_only_the_answers_are_taken(send, assignment):
    path = send("taken", ANSWERS | {"scale-check": "pass", "other": "y = 2"})
    found = read_submission(path, assignment)
    assert (found.path, found.answers, found.troubles) == (path, ANSWERS, {})
    assert len(found.digest) == 16


def test_a_missing_and_a_double_answer_have_their_reason(send, assignment):
    found = read_submission(send("odd", {"center": ["x = 1", "x = 2"]}), assignment)
    assert found.answers == {}
    assert found.troubles == {"scale": "the cell is missing", "center": "the cell comes more than once"}


def test_the_digest_is_that_of_the_file_and_the_source(send, assignment):
    path = send("digest", ANSWERS)
    first = read_submission(path, assignment).digest
    assert read_submission(path, assignment).digest == first
    assert read_submission(send("digest", ANSWERS | {"center": "x = 3"}), assignment).digest != first


CELL = {"cell_type": "code", "metadata": {"nbgrader": []}, "source": "", "outputs": [], "execution_count": None}
ODD = [b"", b"{", b"{}", b"[]", b"\xff", json.dumps({"nbformat": 4, "nbformat_minor": 5, "cells": 3}).encode()]


@pytest.mark.parametrize("content", [*ODD, json.dumps({"nbformat": 4, "nbformat_minor": 4, "cells": [CELL]}).encode()])
def test_what_is_no_notebook_is_a_submission_without_answers(room, assignment, content):
    (room / "sent" / "odd.ipynb").write_bytes(content)
    found = read_submission("sent/odd.ipynb", assignment)
    assert found.answers == {} and set(found.troubles) == {"scale", "center"}


def test_a_file_that_cannot_be_read_says_why(room, assignment, monkeypatch):
    why = read_submission("sent/nowhere.ipynb", assignment).troubles["scale"]
    assert why == "the file cannot be read (there is no such file)"
    os.mkfifo(room / "sent" / "pipe.ipynb")
    assert "no such file" in read_submission("sent/pipe.ipynb", assignment).troubles["scale"]
    monkeypatch.setattr(submission, "LARGEST", 3)
    (room / "sent" / "large.ipynb").write_text("    ")
    assert "larger than" in read_submission("sent/large.ipynb", assignment).troubles["scale"]

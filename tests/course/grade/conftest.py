"""A small lesson with two exercises, and notebooks that students send."""

import csv
import os
import tempfile
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from residual_edu.course import main

SOURCE = '''# %% [markdown]
# # Small homework

# %%
import torch
from residual_edu.exercises import attempt, check
three = torch.tensor([1.0, 2.0, 3.0])

# %% [markdown]
# Scale x.

# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "scale", "locked": false, "schema_version": 3, "solution": true, "task": false}
def scale(x, factor):
    """Return x, scaled."""
    ### BEGIN SOLUTION
    scaled_tensor = factor * x
    return scaled_tensor
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "scale-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
with attempt("scale"):
    assert torch.allclose(scale(three, 2.0), 2 * three), "twice"

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "scale-hidden", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
secret_factor = 3.5
assert torch.allclose(scale(three, secret_factor), torch.tensor([3.5, 7.0, 10.5])), "another factor"
### END HIDDEN TESTS

# %% [markdown]
# <details><summary>Hint 1</summary>Which axis?</details>

# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "center", "locked": false, "schema_version": 3, "solution": true, "task": false}
def center_and_scale(x, eps=1e-5):
    """Return LayerNorm of x."""
    ### BEGIN SOLUTION
    deviation = x - x.mean(-1, keepdim=True)
    return deviation / (deviation.square().mean(-1, keepdim=True) + eps).sqrt()
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "center-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(center_and_scale, "center_and_scale")

# %%
print("the end")
'''  # noqa: E501 - nbgrader writes a cell's metadata in one line


def cell(source, grade_id):
    return new_code_cell(source, metadata={"nbgrader": {"grade_id": grade_id, "solution": True}})


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """A checkout with the small lesson as homework, where everything here happens; anybody may enter it."""
    folder, before = tmp_path_factory.mktemp("room"), Path.cwd()
    (folder / "notebooks" / "source" / "homework").mkdir(parents=True)
    (folder / "notebooks" / "source" / "homework" / "hw_small.py").write_text(SOURCE)
    (folder / "sent").mkdir()
    (folder / "tmp").mkdir()
    os.chdir(folder)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "tmp")  # what graders leave behind would be here
    yield folder
    del os.environ["TMPDIR"]
    tempfile.tempdir = None
    os.chdir(before)


@pytest.fixture(scope="module")
def send(room):
    """Return a function that writes a notebook with answers, a source or a list of them by grade_id."""

    def write(name, answers):
        cells = [cell(source, task) for task in answers for source in listed(answers[task])]
        path = room / "sent" / f"{name}.ipynb"
        nbformat.write(new_notebook(cells=cells), path)
        return f"sent/{name}.ipynb"

    return write


def listed(sources):
    return [sources] if isinstance(sources, str) else sources


@pytest.fixture(scope="module")
def grade(room):
    """Return a function that grades and returns the rows of scores.csv by submission."""

    def run(*arguments, out="scores.csv"):
        assert main(["grade", "hw_small", *arguments, "--out", out]) == 0
        with (room / out).open(newline="") as file:
            return {row["submission"]: row for row in csv.DictReader(file)}

    return run


@pytest.fixture
def left_over(room):
    """Return a function that names what grading in this room has left: processes, and files in its temporary folder."""

    def find():
        running = [path.parent.name for path in Path("/proc").glob("[0-9]*/environ") if holds(path, str(room / "tmp"))]
        return [*running, *os.listdir(room / "tmp")]

    return find


def holds(path, text):
    try:
        return int(path.parent.name) != os.getpid() and text.encode() in path.read_bytes()
    except OSError:
        return False

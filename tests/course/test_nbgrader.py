"""nbgrader itself, where it is installed, takes the same sources and gives the same scores."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import jupytext
import nbformat
from nbgrader.nbgraderformat import MetadataValidator

from residual_edu.course import main
from residual_edu.course.checkout import with_homework
from residual_edu.course.grade.assignment import read_assignment
from residual_edu.course.student import student

ROOT = Path(__file__).parents[2]
(SOURCE,) = with_homework(ROOT, ["hw_00_01"])


def nbgrader(*arguments):
    """Run nbgrader in this folder; it finds alembic beside this Python."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def answered(released, right):
    """Return the released notebook with the solutions of the tasks that are ``right``."""
    notebook, solutions = nbformat.read(released, as_version=4), {task.id: task.solution for task in right}
    for cell in notebook.cells:
        cell.source = solutions.get(cell.metadata.get("nbgrader", {}).get("grade_id"), cell.source)
    return notebook


def test_generated_autograded_and_exported_it_gives_the_same_scores(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "source" / "hw").mkdir(parents=True)
    jupytext.write(jupytext.read(SOURCE, fmt="py:percent"), tmp_path / "source" / "hw" / f"{SOURCE.stem}.ipynb")
    nbgrader("generate_assignment", "hw", "--create")
    released, tasks = tmp_path / "release" / "hw" / f"{SOURCE.stem}.ipynb", read_assignment(SOURCE).tasks
    assert not [task.id for task in tasks if task.solution in released.read_text()]
    paths = []
    for name, right in {"all": tasks, "one": tasks[:1], "none": []}.items():
        paths.append(tmp_path / "submitted" / name / "hw" / f"{SOURCE.stem}.ipynb")
        paths[-1].parent.mkdir(parents=True)
        nbformat.write(answered(released, right), paths[-1])
    nbgrader("autograde", "hw", "--create")
    nbgrader("export", "--to", "nbgrader.csv")
    theirs = {row["student_id"]: float(row["score"]) for row in rows(tmp_path / "nbgrader.csv")}
    assert main(["grade", str(SOURCE), *map(str, paths), "--out", "ours.csv"]) == 0
    ours = {Path(row["submission"]).parts[-3]: float(row["points"]) for row in rows(tmp_path / "ours.csv")}
    assert ours == theirs == {"all": 9.0, "one": 3.0, "none": 0.0}


def test_nbgrader_finds_the_student_versions_valid():
    for source in with_homework(ROOT):
        for cell in student(source).cells:
            MetadataValidator().validate_cell(cell)


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))

"""From the sources to nbgrader's release, from what a learning platform gives to its folders, and back to scores."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import nbformat
import pytest

from residual_edu.course.assignment import teacher
from residual_edu.course.checkout import with_homework
from residual_edu.course.exercise_cells import solved
from residual_edu.course.student import student

from .conftest import ROOT
from .handed_in import RIGHT, notebook

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SOURCES = {source.stem: source for source in with_homework(ROOT)}


@pytest.fixture(scope="module")
def course(tmp_path_factory, residual_edu):
    """A course folder with every lesson and homework, and hw_small of an instructor's own."""
    out = tmp_path_factory.mktemp("course")
    assert residual_edu("assignment", out).returncode == 0
    assert residual_edu("new", "hw_small", "--into", out / "private").returncode == 0
    assert residual_edu("assignment", out, "--from", out / "private").returncode == 0
    return out


RELEASE_ALL = """
import sys
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import PyFileConfigLoader
config = PyFileConfigLoader("nbgrader_config.py").load_config()
api = NbGraderAPI(CourseDirectory(config=config), config=config)
for name in sys.argv[1:]:
    done = api.generate_assignment(name, force=True, create=True)
    assert done["success"], done["log"]
"""


@pytest.fixture(scope="module")
def released(course, python):
    """What nbgrader releases, all in one process."""
    names = [path.name for path in (course / "source").iterdir()]
    environment = os.environ | {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [python, "-c", RELEASE_ALL, *names], cwd=course, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-500:]
    return course / "release"


@pytest.fixture
def small(course, released, tmp_path):
    """A course folder of hw_small alone, with a right submission of ada's."""
    shutil.copytree(course / "source" / "hw_small", tmp_path / "source" / "hw_small")
    shutil.copy(course / "nbgrader_config.py", tmp_path)
    handout = (released / "hw_small" / "hw_small.ipynb").read_text()
    hand_in(tmp_path, "ada", json.dumps(notebook(handout, RIGHT)))
    return tmp_path


def hand_in(out, name, text, assignment="hw_small"):
    folder = out / "submitted" / name / assignment
    folder.mkdir(parents=True)
    (folder / f"{assignment}.ipynb").write_text(text)


@pytest.mark.parametrize("name", SOURCES)
def test_what_nbgrader_releases_is_what_student_hands_out_cell_for_cell(released, name):
    theirs = nbformat.read(released / name / f"{name}.ipynb", as_version=4)
    for cell in theirs.cells:
        for key in ("checksum", "cell_type"):  # nbgrader's own notes
            cell.metadata.get("nbgrader", {}).pop(key, None)
    assert theirs == student(SOURCES[name])


def rows(path):
    with path.open(newline="", encoding="utf-8") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def test_homework_by_hand_and_by_release_is_graded_alike(course, released, residual_edu):
    name = "hw_00_01"
    answers = {
        cell.metadata.nbgrader.grade_id: solved(cell.source)
        for cell in teacher(SOURCES[name]).cells
        if "nbgrader" in cell.metadata and cell.metadata.nbgrader.solution
    }
    handouts = {
        "release": nbformat.read(released / name / f"{name}.ipynb", as_version=4),
        "hand": student(SOURCES[name]),
    }
    handouts["built"] = nbformat.read(ROOT / "notebooks" / "homework" / f"{name}.ipynb", as_version=4)
    for who, made in handouts.items():
        for cell in made.cells:
            cell.source = answers.get(cell.metadata.get("nbgrader", {}).get("grade_id"), cell.source)
        hand_in(course, who, nbformat.writes(made), name)
    hand_in(course, "untouched", nbformat.writes(student(SOURCES[name])), name)
    hand_in(course, "another", nbformat.writes(student(SOURCES["hw_02_03"])), name)
    done = residual_edu("grade", course, name)
    assert done.returncode == 1, done.stderr
    found = {who: (row["points"], row["state"]) for who, row in rows(course / "scores.csv").items()}
    assert found == {
        **dict.fromkeys(handouts, ("9.0", "graded")),
        "untouched": ("0.0", "graded"),
        "another": ("", "could not be graded: this is hw_02_03"),
    }


def test_a_lesson_can_be_graded_too(course, released, residual_edu):
    made = nbformat.read(course / "source" / "00_residual_connection" / "00_residual_connection.ipynb", as_version=4)
    for cell in made.cells:
        cell.source = solved(cell.source)
    hand_in(course, "ada", nbformat.writes(made), "00_residual_connection")
    done = residual_edu("grade", course, "00_residual_connection")
    row = rows(course / "scores.csv")["ada"]
    assert row["points"] == row["possible"] and float(row["points"]) > 0, done.stdout + done.stderr


COLLECTED = {
    "lovelaceada_12345_67890_hw_small.ipynb": "lovelaceada",
    "turingalan_LATE_123_456_hw_small-1.ipynb": "turingalan",
    "Grace Hopper_4711_assignsubmission_file_/hw_small.ipynb": "4711",
    "Ada B. Lovelace_4712_assignsubmission_file/hw_small.ipynb": "4712",
    "kurt_g/hw_small.ipynb": "kurt_g",
}


def test_what_canvas_and_moodle_and_folders_give_is_collected_with_the_students_id(small, nbgrader):
    text = (small / "submitted" / "ada" / "hw_small" / "hw_small.ipynb").read_text()
    for name in COLLECTED:
        path = small / "downloaded" / "hw_small" / "archive" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    nbgrader(small, "zip_collect", "hw_small")
    found = {path.relative_to(small / "submitted").as_posix() for path in (small / "submitted").rglob("*.ipynb")}
    assert found == {f"{who}/hw_small/hw_small.ipynb" for who in [*COLLECTED.values(), "ada"]}


def test_the_variant_of_the_guide(tmp_path, residual_edu):
    guide = (ROOT / "docs" / "instructors.md").read_text()
    table = guide.partition("| in hw_00_01 | in the variant |")[2].partition("\n\n")[0]
    text = SOURCES["hw_00_01"].read_text()
    changes = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", table, re.M)
    assert len(changes) >= 5
    for before, after in changes:
        assert text.count(before) == 1
        text = text.replace(before, after)
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "hw_spring.py").write_text(text)
    assert residual_edu("assignment", tmp_path, "--from", tmp_path / "private").returncode == 0
    full = nbformat.read(tmp_path / "source" / "hw_spring" / "hw_spring.ipynb", as_version=4)
    public = {
        c.metadata.nbgrader.grade_id: c.source for c in teacher(SOURCES["hw_00_01"]).cells if "nbgrader" in c.metadata
    }
    for who in ("own", "public"):
        made = nbformat.reads(nbformat.writes(full), as_version=4)
        for cell in made.cells:
            is_solution = cell.metadata.get("nbgrader", {}).get("solution")
            cell.source = solved(
                public[cell.metadata.nbgrader.grade_id] if is_solution and who == "public" else cell.source
            )
        hand_in(tmp_path, who, nbformat.writes(made), "hw_spring")
    done = residual_edu("grade", tmp_path)
    found = rows(tmp_path / "scores.csv")
    assert done.returncode == 0, done.stdout
    names = ("branch-scale-check", "branch-scale-hidden")
    assert [float(found["own"][name]) for name in names] == [1, 2]
    assert [float(found["public"][name]) for name in names] == [0, 0]


def without_bubblewrap(tmp_path):
    """A path with everything but bwrap."""
    (tmp_path / "bin").mkdir()
    for tool in ("sh", "setpriv", "prlimit", "ps"):
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
        (
            lambda out: shutil.rmtree(out / "submitted"),
            [],
            "put submissions there as STUDENT/ASSIGNMENT/ASSIGNMENT.ipynb",
        ),
        (lambda out: None, ["hw_other"], "There is no assignment 'hw_other' in"),
        (lambda out: None, ["--due", "tomorrow"], "--due needs ASSIGNMENT=TIME, got 'tomorrow'."),
        (lambda out: (out / "students.csv").write_text("name\nAda\n"), [], "students.csv has no column called id."),
        (lambda out: (out / "scores.csv").mkdir(), [], "scores.csv"),
        (lambda out: (out / ".grading").write_text(""), [], ".grading: File exists"),
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
    command = [python, "-m", "residual_edu.course", "grade", small, "--jobs", "1"]
    first = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
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


def test_scores_of_several_machines_are_joined(small, residual_edu, tmp_path_factory):
    residual_edu("grade", small)
    other = tmp_path_factory.mktemp("other")
    (other / "scores.csv").write_text((small / "scores.csv").read_text().replace("ada", "bob"))
    out = tmp_path_factory.mktemp("all")
    done = residual_edu("grade", out, "--join", small, other)
    assert (done.returncode, done.stdout) == (0, f"2 rows in {out / 'scores.csv'}\n")
    assert {who: row["points"] for who, row in rows(out / "scores.csv").items()} == {"ada": "3.0", "bob": "3.0"}
    twice = residual_edu("grade", out, "--join", small, small)
    assert twice.returncode == 2 and "ada has hw_small twice" in twice.stderr
    assert "There is no" in residual_edu("grade", out, "--join", other / "nothing").stderr

"""From the sources to nbgrader's release, from what a learning platform gives to its folders, and back to scores."""

import nbformat
import pytest

from residual_course.commands.assignment import gradable, teacher
from residual_course.commands.exercise_cells import solved
from residual_course.commands.student import student

from .conftest import ROOT, hand_in, rows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SOURCES = {source.stem: source for source in gradable(ROOT)}


@pytest.mark.parametrize("name", SOURCES)
def test_what_nbgrader_releases_is_what_student_hands_out_cell_for_cell(released, name):
    theirs = nbformat.read(released / name / f"{name}.ipynb", as_version=4)
    for cell in theirs.cells:
        for key in ("checksum", "cell_type"):  # nbgrader's own notes
            cell.metadata.get("nbgrader", {}).pop(key, None)
    assert theirs == student(SOURCES[name])


def test_homework_by_hand_and_by_release_is_graded_alike(course, released, residual_edu):
    name = "hw_00_01"
    answers = {
        cell.metadata.nbgrader.grade_id: solved(cell.source)
        for cell in teacher(SOURCES[name]).cells
        if "nbgrader" in cell.metadata and cell.metadata.nbgrader.solution
    }
    handouts = {"release": nbformat.read(released / name / f"{name}.ipynb", as_version=4)}
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
        **dict.fromkeys(handouts, ("12.0", "graded")),
        "untouched": ("0.0", "graded"),
        "another": ("", "could not be graded: this is hw_02_03"),
    }


def test_a_lesson_can_be_graded_too(course, released, residual_edu):
    name = "01_gradient_flow"  # the shortest to run
    made = nbformat.read(course / "source" / name / f"{name}.ipynb", as_version=4)
    for cell in made.cells:
        cell.source = solved(cell.source)
    hand_in(course, "ada", nbformat.writes(made), name)
    done = residual_edu("grade", course, name)
    row = rows(course / "scores.csv")["ada"]
    assert row["points"] == row["possible"] and float(row["points"]) > 0, done.stdout + done.stderr
    graded = nbformat.read(course / "autograded" / "ada" / name / f"{name}.ipynb", as_version=4)
    outputs = [output for cell in graded.cells for output in cell.get("outputs", [])]
    assert len(outputs) > 20 and [each for each in outputs if each.output_type == "error"] == []


COLLECTED = {
    "turingalan_LATE_123_456_hw_small-1.ipynb": "123",
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

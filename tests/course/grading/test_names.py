"""One student however a name is spelled, no student where nobody handed in, and no time that is guessed."""

import csv
import json
import unicodedata
from pathlib import Path

import pytest
from dateutil.parser import parse

from residual_course.commands.checkout import Refusal
from residual_course.commands.grade import due, part, roster
from residual_course.commands.grading import scores
from residual_course.commands.grading.submission import find

NFD = unicodedata.normalize("NFD", "Müller")


@pytest.fixture
def out(tmp_path):
    """A course folder with the source of one assignment."""
    (tmp_path / "source" / "hw_a").mkdir(parents=True)
    (tmp_path / "source" / "hw_a" / "hw_a.ipynb").write_text("{}")
    (tmp_path / ".grading").mkdir()
    return tmp_path


def hand_in(out: Path, student: str, *files: str) -> None:
    for file in files:
        path = out / "submitted" / student / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")


def found(out: Path) -> list[tuple[str, str, int]]:
    listed = roster(out / "students.csv")
    return [(each.student, each.assignment, len(each.notebooks())) for each in find(out, [], listed)]


@pytest.mark.parametrize(
    ("listed", "folder", "name"),
    [
        (NFD, "Müller", "Müller"),
        ("STRAUSS  A", "Strauß a", "STRAUSS A"),
        ("\u200bada\ufeff", "a\u00adda", "ada"),
    ],
)
def test_a_student_is_one_however_the_name_is_spelled(out, listed, folder, name):
    hand_in(out, folder, "hw_a/hw_a.ipynb")
    (out / "students.csv").write_text(f"\ufeffid,first_name\r\n{listed},A.\r\n,\r\n", encoding="utf-8")
    assert found(out) == [(name, "hw_a", 1)]


def test_two_spellings_of_one_student_are_refused(out):
    for folder in ("Müller", NFD):
        hand_in(out, folder, "hw_a/hw_a.ipynb")
    with pytest.raises(Refusal, match=r"submitted has 'M.*ller' and 'M.*ller', which read alike"):
        found(out)


def test_what_an_archive_a_system_or_jupyter_leaves_is_nobody_and_nothing(out):
    for folder in ("__MACOSX/ada", ".Trash-0", "$RECYCLE.BIN", "@eaDir", "lost+found"):
        hand_in(out, folder, "hw_a/hw_a.ipynb")
    junk = [".DS_Store", "Thumbs.db", "desktop.ini", "._hw_a.ipynb", ".ipynb_checkpoints/hw_a-checkpoint.ipynb"]
    hand_in(out, "ada", "hw_a/hw_a (1).IPYNB", *(f"hw_a/{name}" for name in junk))
    hand_in(out, "bob", ".ipynb_checkpoints/hw_a.ipynb", "__MACOSX/hw_a.ipynb", *(f"hw_a/{name}" for name in junk))
    hand_in(out, ".", ".DS_Store", "Thumbs.db")
    assert found(out) == [("ada", "hw_a", 1), ("bob", "hw_a", 0)]
    assert find(out, [], [])[1].without_notebook() == "nothing was handed in"


@pytest.mark.parametrize("time", ["2026-12-01T23:59Z", "2026-12-02 00:59+01:00", "2026-12-01 23:59 utc"])
def test_a_time_with_its_zone_is_kept_as_nbgrader_reads_it(out, time):
    kept = due(out, [f"hw_a={time}"])["hw_a"]
    assert parse(kept).utctimetuple()[:5] == (2026, 12, 1, 23, 59)
    assert json.loads((out / ".grading" / "due.json").read_text()) == due(out, []) == {"hw_a": kept}


@pytest.mark.parametrize("time", ["12/1/2026 23:59 UTC", "12.01.2026", "2026-12-01 23:59 EST", "2026-12-01 23:59"])
def test_a_time_that_could_be_another_is_refused(out, time):
    with pytest.raises(Refusal, match=r"--due 'hw_a=.* may be more than one moment: .* as in 2026-01-12 23:59 UTC"):
        due(out, [f"hw_a={time}"])


def test_scores_that_a_spreadsheet_saved_are_read_and_one_student_has_one_row(out):
    before = [scores.row(name, "hw_a", {"state": "graded", "parts": {"part": 1.0}}) for name in (NFD, "=x", "ada")]
    scores.update(out, before)
    text = (out / "scores.csv").read_text(encoding="utf-8").replace("\n", "\r\n")
    (out / "scores.csv").write_text(f"\ufeff{text},,,,,,,\r\n", encoding="utf-8", newline="")
    scores.update(out, [scores.row(name, "hw_b", {"state": "graded", "parts": {}}) for name in ("Müller", "=x", "Ada")])
    assert len(scores.read(out / "scores.csv")) == 6
    with (out / "canvas.csv").open(newline="", encoding="utf-8") as file:
        assert [row["hw_a"] for row in csv.DictReader(file)] == ["1.0", "1.0", "1.0"]


def test_two_halves_of_a_class_give_the_table_of_one_run(out):
    for number in range(9):
        hand_in(out, f"S{number}" if number % 2 else f"s{number}", "hw_a/hw_a.ipynb")
    (out / "students.csv").write_text("id\nabsent\n")
    every = find(out, [], roster(out / "students.csv"))
    row = lambda each: scores.row(each.student, each.assignment, {"state": "graded", "parts": {"1": 0.5}})  # noqa: E731
    scores.update(out, [row(each) for each in part(every, None)])
    once = (out / "scores.csv").read_text()
    (out / "scores.csv").unlink()
    for which in ("6-99", "1-4", "s3,Absent,S1", "5-5"):
        scores.update(out, [row(each) for each in part(every, which)], is_part=True)
    assert (out / "scores.csv").read_text() == once and once.count("\n") == 11
    for which in ("0-5", "11-20", "s1,nobody", ""):
        with pytest.raises(Refusal, match=f"--students '{which}' is neither places, as in 1-10, nor names of students"):
            part(every, which)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("scores.csv", b"student;assignment\nada;hw_a\n", "has no column called student: save it as CSV UTF-8"),
        ("scores.csv", "student,assignment\nMüller,hw_a\n".encode("cp1252"), "cannot be read .*: save it as CSV UTF-8"),
        ("students.csv", b"id\nada\n<<<<<<< HEAD\nbob\n", "a merge left '<<<<<<< HEAD' here"),
        ("students.csv", "id\tname\nada\tAda\n".encode("utf-16"), "cannot be read"),
    ],
)
def test_what_is_no_such_file_is_a_sentence_with_its_name(out, name, data, said):
    (out / name).write_bytes(data)
    with pytest.raises(Refusal, match=rf"{name}:? {said}"):
        scores.read(out / name) if name == "scores.csv" else roster(out / name)

"""A made-up class, graded in one command: the right get their points, the hostile gain nothing, and all have a row."""

import csv
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest

from .conftest import ROOT, hand_in, small_homework
from .conftest import rows as rows_of
from .handed_in import BROKEN, CHEAT, HOSTILE, RIGHT, TAMPERED, WRONG, notebook, right_answers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SECRET = "a-token-of-the-instructor"
ODD_NAMES = {"deleted-test": "=HYPERLINK(1)", "loud": "\x1b[31mred", "version-3": "ünïcode"}  # their answers are right


@pytest.fixture(scope="module")
def course(tmp_path_factory, residual_edu):
    """A course folder with the homework hw_small, in a folder with a space in its name."""
    out = tmp_path_factory.mktemp("a class")
    small_homework(out / "private")
    done = residual_edu("assignment", out, "--from", out / "private")
    assert done.returncode == 0, done.stderr
    with (out / "nbgrader_config.py").open("a") as file:
        file.write("c.Execute.timeout = 24\n")
    return out


@pytest.fixture(scope="module")
def handout(course, nbgrader):
    nbgrader(course, "generate_assignment", "hw_small", "--create")
    return (course / "release" / "hw_small" / "hw_small.ipynb").read_text()


@pytest.fixture(scope="module")
def listener():
    """A server on this machine, outside: a submission that reaches it is noted."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        visits = []

        def serve():
            while True:
                try:
                    visits.append(server.accept()[1])
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}", visits


@pytest.fixture(scope="module")
def graded(course, handout, listener, residual_edu):
    """What the command said of the whole class, its rows by student, and what it left behind."""
    canary = course / "canary"
    canary.write_text("as it was")
    for name, (file, data) in right_answers(handout).items():
        hand_in(course, ODD_NAMES.get(name, f"right-{name}"), data, file=file)
    for name, cells in HOSTILE.items():
        said = [text.replace("{address}", listener[0]).replace("{canary}", str(canary)) for text in cells]
        hand_in(course, f"hostile-{name}", json.dumps(notebook(handout, WRONG, after=said)).encode())
    for name, cells in TAMPERED.items():
        hand_in(course, f"tampered-{name}", json.dumps(notebook(handout, WRONG, **cells)).encode())
    hand_in(course, "cheat", json.dumps(notebook(handout, f"{CHEAT}\n{WRONG}")).encode())
    for name, (data, _) in BROKEN.items():
        hand_in(course, f"broken-{name}", data)
    hand_in(course, "newer", json.dumps(notebook(handout, RIGHT, ["from residual_edu import SomethingNew"])).encode())
    (course / "submitted" / "newer" / "hw_small" / "timestamp.txt").write_text("2.12.2026 00:00")
    (course / "submitted" / "empty-folder" / "hw_small").mkdir(parents=True)
    (course / "submitted" / "a-pdf" / "hw_small").mkdir(parents=True)
    (course / "submitted" / "a-pdf" / "hw_small" / "homework.pdf").touch()
    (course / "submitted" / "a-link" / "hw_small").mkdir(parents=True)
    (course / "submitted" / "a-link" / "hw_small" / "hw_small.ipynb").symlink_to("/etc/passwd")
    (course / "students.csv").write_text("id,first_name\nright-plain,Ada\nabsent,Bob\n")
    with tempfile.TemporaryDirectory() as own:  # short, as the path of a socket must be; nothing else writes there
        done = residual_edu("grade", course, "--seconds", 80, SECRET_TOKEN=SECRET, TMPDIR=own)
        left = sorted(path.name for path in Path(own).iterdir())
    return done, rows_of(course / "scores.csv"), left


def of(graded, kind):
    return {name.removeprefix(kind): row for name, row in graded[1].items() if name.startswith(kind)}


def test_everybody_has_a_row(course, graded):
    done, rows, _ = graded
    assert done.returncode == 1, done.stderr  # some could not be graded
    assert len(rows) == len(list((course / "submitted").iterdir())) + 1
    assert {rows[name]["state"] for name in ("absent", "empty-folder")} == {"nothing was handed in"}
    assert {row["confined"] for row in rows.values() if row["state"] == "graded"} == {"yes"}
    assert rows["newer"]["state"].startswith("graded; cannot import name 'SomethingNew' from 'residual_edu': unless it")
    assert rows["newer"]["late"].startswith("unknown: timestamp.txt: '2.12.2026 00:00' may be more than one moment")
    assert rows["a-pdf"]["state"] == "could not be graded: there is no notebook, only homework.pdf"


def test_right_answers_in_unusual_forms_get_full_marks(graded, handout):
    shown = {"\x1b[31mred": " [31mred", "=HYPERLINK(1)": "'=HYPERLINK(1)"}
    names = [ODD_NAMES.get(name, f"right-{name}") for name in right_answers(handout)]
    rows = [graded[1][shown.get(name, name)] for name in names]
    assert [(row["points"], row["state"]) for row in rows] == [("3.0", "graded")] * len(names)


def test_hostile_answers_gain_nothing(graded):
    found = {name: row["points"] for name, row in of(graded, "hostile-").items()}
    assert sorted(found) == sorted(HOSTILE)
    assert {name: points for name, points in found.items() if points not in ("", "0.0")} == {}
    assert {row["state"][:19] for row in of(graded, "hostile-").values()} <= {"graded", "could not be graded"}
    assert {row["points"] for row in of(graded, "tampered-").values()} == {"0.0"}  # changed tests are put back


def test_what_nbgrader_cannot_stop_is_told_in_the_guide(graded):
    assert graded[1]["cheat"]["points"] == "3.0"
    guide = (ROOT / "docs" / "grading.md").read_text()
    assert "A submission and its tests share a kernel" in guide


def test_broken_files_are_told(graded):
    for name, row in of(graded, "broken-").items():
        assert BROKEN[name][1] in row["state"] and row["points"] == ""


def test_nothing_outside_was_reached_or_changed(course, graded, listener):
    assert listener[1] == []
    assert (course / "canary").read_text() == "as it was"
    files = [path for kind in ("feedback", "autograded") for path in (course / kind).rglob("*.*") if path.is_file()]
    said = [path.read_text(errors="replace") for path in files]
    assert len(said) >= 2 * sum(row["state"] == "graded" for row in graded[1].values()) > 20
    assert [text for text in said if SECRET in text or "FOUND /" in text] == []
    assert [text for text in said if "SEARCHED ALL\\n" in text]  # it came to its end, and found none
    assert SECRET not in (course / "scores.csv").read_text()
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert "sleep 4321" not in running and "ipykernel_launcher -f /tmp/connection.json" not in running
    assert graded[2] == []


def test_names_and_outputs_obey_no_terminal_and_no_spreadsheet(course, graded):
    text = (course / "scores.csv").read_text()
    assert "\x1b" not in text + graded[0].stdout and "\n'=HYPERLINK(1)," in text and "\n [31mred," in text


def test_feedback_shows_no_hidden_test(course, graded):
    page = (course / "feedback" / "right-plain" / "hw_small" / "hw_small.html").read_text()
    assert "twice one is two" in page and "Fontconfig" not in page
    wrong = (course / "feedback" / "tampered-weak test" / "hw_small" / "hw_small.html").read_text()
    assert "AssertionError: other numbers and shapes" in wrong  # the sentence, not the test
    for text in (page, wrong):
        assert text.count("Exercise 1 (answer)") == 4 and "Test cell" not in text
        assert not re.search("BEGIN HIDDEN|0\\.5\\)|torch\\.full", text)


def test_canvas_has_a_row_for_each_student(course, graded):
    with (course / "canvas.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["SIS Login ID"]: row for row in csv.DictReader(file)}
    assert rows.keys() == graded[1].keys()
    assert list(rows["absent"]) == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "hw_small"]
    assert rows["right-plain"]["hw_small"] == "3.0" and rows["absent"]["hw_small"] == ""


def test_a_second_run_does_only_what_is_new(course, graded, handout, residual_edu):
    for folder in (course / "submitted").iterdir():
        if folder.name not in ("right-plain", "ünïcode"):
            shutil.rmtree(folder)
    before = os.stat(course / "feedback" / "right-plain" / "hw_small").st_mtime_ns
    hand_in(course, "later", json.dumps(notebook(handout, WRONG)).encode())
    (course / "submitted" / "later" / "hw_small" / "timestamp.txt").write_text("2026-12-02 00:00:00 UTC")
    done = residual_edu("grade", course)
    assert done.returncode == 0, done.stderr
    said = re.findall(r"^(.+), hw_small: (.+)$", done.stdout, re.M)  # in the order in which they were done
    assert sorted(said) == [
        ("absent", "nothing was handed in"), ("later", "0 of 3"), ("right-plain", "3 of 3"), ("ünïcode", "3 of 3"),
    ]  # fmt: skip
    assert os.stat(course / "feedback" / "right-plain" / "hw_small").st_mtime_ns == before
    assert "later,hw_small,0.0,3.0,,graded,yes" in (course / "scores.csv").read_text()
    done = residual_edu("grade", course, "--due", "hw_small=2026-12-01 23:59:00 UTC")  # now it is known who is late
    assert "later,hw_small,0.0,3.0,late,graded,yes" in (course / "scores.csv").read_text()


def test_a_changed_hidden_test_grades_all_again(course, graded, residual_edu):
    pages = sorted((course / "feedback").glob("*/hw_small"))
    before = [os.stat(page).st_mtime_ns for page in pages]
    source = course / "private" / "hw_small.py"
    source.write_text(source.read_text().replace("(-3.0, 0.0, 0.5)", "(7.0,)"))
    assert residual_edu("assignment", course, "--from", course / "private").returncode == 0
    done = residual_edu("grade", course, "hw_small")
    assert done.returncode == 0 and "right-plain, hw_small: 3 of 3" in done.stdout, done.stderr
    handed = {folder.name for folder in (course / "submitted").iterdir()}
    again = {page.parent.name for page, time in zip(pages, before, strict=True) if os.stat(page).st_mtime_ns != time}
    assert again == handed  # and not the kept points, which look the same

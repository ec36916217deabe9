"""Many submissions: interrupted and taken up again, read from standard input, and refused where it cannot begin."""

import csv
import io
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from residual_edu.course import grade as batch
from residual_edu.course import main

SCALE_RIGHT = "def scale(x, factor):\n    return x * factor"
ANSWERS = {"scale": SCALE_RIGHT, "center": "def center_and_scale(x, eps=1e-5):\n    return x"}


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_stopped_run_goes_on_where_it_was_and_leaves_nothing_behind(room, send, left_over):
    slow = ANSWERS | {"center": "import time\ntime.sleep(2)"}
    paths = [send(f"many-{number}", slow if number else ANSWERS) for number in range(4)]
    command = [sys.executable, "-m", "residual_edu.course", "grade", "hw_small", *paths, "--out", "many.csv"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts)
    while not (room / "many.csv").exists() or len(rows(room / "many.csv")) < 2:
        assert process.poll() is None and not time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert "Stopped. Run the same command again to go on." in process.communicate(timeout=30)[1]
    assert process.returncode == 130 and left_over() == []
    before = rows(room / "many.csv")
    assert 2 <= len(before) < 4
    marked = [row | {"remarks": "kept"} for row in before]
    write(room / "many.csv", marked, torn=True)
    assert main(["grade", "hw_small", *paths, "--out", "many.csv"]) == 0
    after = rows(room / "many.csv")
    assert [row["submission"] for row in after] == paths and all(row["points"] == "3" for row in after)
    assert sum(row["remarks"] == "kept" for row in after) == len(before)
    assert left_over() == []


def heed_interrupts():
    """A test that runs in the background of a shell is started deaf to Ctrl-C, and so are its children."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def write(path, given, torn):
    text = io.StringIO(newline="")
    csv.DictWriter(text, given[0]).writeheader()
    csv.DictWriter(text, given[0]).writerows(given)
    path.write_text(text.getvalue() + "sent/many-3.ipynb,3,5,1,2" * torn)


def test_a_killed_grader_takes_its_processes_along(room, send, left_over):
    paths = [send("sleeper", ANSWERS | {"center": "import time\ntime.sleep(60)"})]
    command = [sys.executable, "-m", "residual_edu.course", "grade", "hw_small", *paths, "--out", "killed.csv"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    while not list((room / "tmp").glob("*/*")):  # the answer's own folder
        assert process.poll() is None and not time.sleep(0.05)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while any(each.isdigit() for each in left_over()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [each for each in left_over() if each.isdigit()]
    shutil.rmtree(room / "tmp")
    (room / "tmp").mkdir()


def test_only_what_has_changed_is_graded_again_and_a_list_comes_from_standard_input(room, send, grade, monkeypatch):
    paths = [send("same", ANSWERS), send("changed", ANSWERS)]
    grade(*paths, out="again.csv")
    asked, score = [], batch.score
    monkeypatch.setattr(batch, "score", lambda *given: asked.append(given[1].path) or score(*given))
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join([*paths, ""])))
    send("changed", {"scale": SCALE_RIGHT})
    found = grade("-", out="again.csv")
    assert list(found) == paths and found["sent/changed.ipynb"]["center-check"] == "0"
    assert asked == ["sent/changed.ipynb"]
    grade(*paths, out="again.csv")
    assert len(asked) == 1


def test_it_says_why_it_cannot_begin(room, send, capsys, monkeypatch):
    path = send("one", ANSWERS)
    (room / "other.csv").write_text("a,b\n1,2\n")
    assert main(["grade", "hw_small", path, "--out", "other.csv"]) == 2
    assert "other.csv holds something else than these scores" in capsys.readouterr().err
    assert main(["grade", "99", path, "--out", "x.csv"]) == 2
    assert "There is no lesson '99'" in capsys.readouterr().err
    monkeypatch.setattr("sys.platform", "darwin")
    assert main(["grade", "hw_small", path, "--out", "x.csv"]) == 2
    assert "grade runs on Linux" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["grade", "hw_small", path, "--out", "x.csv", "--jobs", "0"])


def source_with(room, old, new):
    text = (room / "notebooks" / "source" / "homework" / "hw_small.py").read_text()
    assert old in text
    (room / "own.py").write_text(text.replace(old, new))
    return ["grade", "own.py", "sent/one.ipynb", "--out", "own.csv"]


def test_a_source_may_stand_anywhere_but_must_be_sound(room, send, capsys):
    send("one", ANSWERS)
    assert main(source_with(room, "scaled_tensor = factor * x", "scaled_tensor = x")) == 2
    assert "The solution of 'scale' itself fails 'scale-check' here: twice" in capsys.readouterr().err
    assert main(source_with(room, "three = ", "three = scale(1, 2)  #")) == 2
    assert "do not run by themselves: NameError: name 'scale' is not defined" in capsys.readouterr().err

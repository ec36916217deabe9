"""The last cell of a lesson says what was predicted and measured, the first where one is; neither stops a lesson."""

import json
import os

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, writes

from residual_course import progress
from residual_course.explorers import Prediction
from residual_course.summary import NO_ANSWER, NO_LESSON, progress_at, summary_of

KINDS = new_markdown_cell, new_code_cell


def notebook(number):
    """A lesson with two predictions and two exercises."""
    parts = [
        ("## Four numbers", f'guess = predict("Is *{number}* < 1?", ["yes", "no"])'),
        ("## How far?", f'guess = predict("How far is {number}?", ["1", "2"])'),
        ("### Exercise 1 · 5 minutes", f'check(f, "first_{number}")'),
        ("## On\n### Exercise 2 · 5 minutes", f'check(f, "second_{number}")'),
    ]
    return writes(new_notebook(cells=[make(text) for part in parts for make, text in zip(KINDS, part, strict=True)]))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A learner's folder with three lessons, as the current folder of a new session."""
    made = tmp_path / "my_lessons"
    made.mkdir()
    for name in ("00_a", "01_b", "02_c"):
        (made / f"{name}.ipynb").write_text(notebook(name[:2]))
    monkeypatch.chdir(made)
    monkeypatch.delenv("RESIDUAL_EDU_STRICT", raising=False)
    restart(monkeypatch)
    return made


def restart(monkeypatch):
    """Forget what the session remembers, as a restarted kernel does."""
    monkeypatch.setattr(progress, "SESSION", {kind: {} for kind in progress.KINDS})


def answer(question, said, truth, choices=("yes", "no")):
    """Answer a prediction, after its block has run where there is a truth, as a learner does."""
    prediction = Prediction(question, choices)
    if truth is not None:
        with prediction:
            prediction.truth = truth
    if said:
        prediction.control.value = said


def pass_all(number):
    for name in ("first", "second"):
        progress.keep("exercises", f"{name}_{number}", True)


def test_each_prediction_stands_beside_what_was_measured_and_a_miss_leads_to_its_section(monkeypatch):
    assert (summary_of("00"), progress_at("00")) == (NO_ANSWER, NO_LESSON)
    answer("Is *00* < 1?", "no", None)
    assert "You said no; not measured yet." in summary_of("00")
    answer("Is *00* < 1?", "no", "yes")
    answer("Is *01* < 1?", "no", "yes")  # of another lesson
    answer("How far is 00?", "2", "2", choices=("1", "2"))
    progress.keep("exercises", "first_00", True)
    expected = [
        "**Your predictions**",
        "",
        r"- Is \*00\* \< 1?<br>You said no; we measured yes. Read again: [Four numbers](<#Four-numbers>)",
        "- How far is 00?<br>You said 2, as measured.",
        "",
        "**Exercises: 1 of 2 hold**",
        "",
        "- Exercise 1, `first_00` holds.",
        "- Exercise 2, `second_00` is open. Read again: [On](<#On>)",
    ]
    assert summary_of("00").split("\n") == expected
    restart(monkeypatch)
    assert summary_of("00").split("\n") == expected
    answer("Is *00* < 1?", "yes", None)  # the last answer counts
    assert "You said yes, as measured." in summary_of("00")


@pytest.mark.parametrize(("said", "truth"), [(None, "yes"), (None, None)])
def test_what_was_not_answered_is_not_told(said, truth):
    progress.keep("exercises", "first_00", True)
    answer("Is *00* < 1?", said, truth)
    assert r"- Is \*00\* \< 1?<br>Not answered yet." in summary_of("00")


def test_a_stored_notebook_shows_the_same_whatever_lies_beside_it(folder, monkeypatch):
    pass_all("00")
    answer("Is *00* < 1?", "no", "yes")
    monkeypatch.setenv("RESIDUAL_EDU_STRICT", "1")
    restart(monkeypatch)
    answer("Is *01* < 1?", "no", "yes")
    pass_all("01")
    assert (summary_of("00"), progress_at("00")) == (NO_ANSWER, NO_LESSON)
    monkeypatch.chdir(folder.parent)
    assert (summary_of("00"), progress_at("00")) == (NO_ANSWER, NO_LESSON)


def test_where_answers_are_not_kept_both_say_so_and_the_session_s_own_are_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # as in Colab
    assert (summary_of("00"), progress_at("00")) == (progress.NO_FOLDER, progress.NO_FOLDER)
    answer("Is it?", "no", "yes")
    progress.keep("exercises", "free", True)
    assert summary_of("00").split("\n")[2:] == [
        "**Your predictions**", "", "- Is it?<br>You said no; we measured yes.", "",
        "**Exercises: 1 of 1 hold**", "", "- `free` holds.",
    ]  # fmt: skip
    begin = f"{progress.NO_FOLDER} This is lesson 00."
    assert progress_at("00") == f"{begin} Done (all exercises hold): no lesson yet."


def test_a_lesson_is_done_when_its_exercises_hold_and_the_next_one_is_linked():
    pass_all("00")
    progress.keep("exercises", "first_01", True)
    begin = "This is lesson 01. Done (all exercises hold): 00. "
    assert progress_at("01") == f"{begin}Next: this one, with 1 exercise open."
    assert progress_at("02").endswith("Next: [lesson 01](01_b.ipynb), with 1 exercise open.")
    pass_all("01")
    assert progress_at("01").endswith("00, 01. Next: [lesson 02](02_c.ipynb), with 2 exercises open.")
    pass_all("02")
    assert progress_at("00").endswith("00, 01, 02. That is the whole course.")


UNREADABLE = "my_lessons/answers.json cannot be read, so every lesson counts as open; nothing in it is lost."


@pytest.mark.parametrize("text", ["", "[1]", '{"predictions": []}', "\udcff"])
def test_a_broken_file_is_a_sentence_and_hides_nothing_of_this_session(folder, text):
    (folder / "answers.json").write_bytes(text.encode(errors="surrogateescape"))
    for said in (summary_of("00"), progress_at("00")):
        assert said == UNREADABLE
    (folder / "answers.json").unlink()
    (folder / "answers.json").mkdir()
    answer("Is *00* < 1?", "no", "yes")
    assert summary_of("00").startswith(UNREADABLE + "\n\n**Your predictions**")
    assert progress_at("00").startswith(UNREADABLE + " This is lesson 00.")


def test_a_folder_that_cannot_be_written_is_read_and_both_say_that_no_more_is_kept(folder, monkeypatch):
    pass_all("00")
    handout = folder.rename(folder.with_name("handout"))
    (handout / "00_a.ipynb").write_text(notebook("00").replace("Four", "residual_course"))  # a lesson names the package
    monkeypatch.chdir(handout)
    restart(monkeypatch)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # root may write anywhere
    said = "handout/answers.json cannot be written, so what you answer is forgotten when the kernel restarts; to keep"
    assert summary_of("00").startswith(said)
    assert "`first_00` holds." in summary_of("00")
    assert progress_at("00").startswith(said)
    assert "Done (all exercises hold): 00. Next: [lesson 01]" in progress_at("00")
    (handout / "answers.json").chmod(0o444)
    assert progress.keep("exercises", "first_01", True).startswith("Not kept in handout/answers.json (the file is read")


ODD = [3, None, [], {"text": 3}, {"truth": 1}, {"text": "1", "truth": "x", "tolerance": None}]


@pytest.mark.parametrize("odd", ODD)
def test_what_others_wrote_into_the_file_stops_nothing(folder, odd):
    kept = {"predictions": {"Is *00* < 1?": odd, "How far is 00?": "1"}, "measured": {"How far is 00?": odd}}
    (folder / "answers.json").write_text(json.dumps(kept | {"exercises": {"first_00": odd}}))
    assert "How far is 00?<br>You said 1" in summary_of("00")
    assert progress_at("00").startswith("This is lesson 00.")


def test_a_notebook_that_is_gone_or_broken_stops_nothing(folder, monkeypatch):
    pass_all("00")
    restart(monkeypatch)
    (folder / "01_b.ipynb").write_text("{")
    assert progress_at("00").endswith("Next: [lesson 01](01_b.ipynb), with 1 exercise open.")
    for number in ("01", "07"):
        assert summary_of(number) == f"No notebook of lesson {number} lies in this session's folder."


def test_a_notebook_of_one_s_own_is_no_lesson_that_is_done(folder):
    for name in ("00_mine", "02b_mine", "11_mine"):
        (folder / f"{name}.ipynb").write_text(writes(new_notebook(cells=[new_code_cell("x = 1")])))
    progress.keep("exercises", "first_01", True)
    said = progress_at("01")
    assert said.startswith("This is lesson 01. Done (all exercises hold): no lesson yet. Next: ") and "mine" not in said

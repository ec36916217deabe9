"""A prediction in one open cell: its block runs at once, and what it shows waits for a choice."""

import json

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from residual_course import companion
from residual_course.lesson import predict
from residual_edu.errors import InvalidInput
from tools.execute import execute

START = """\
import sys
from IPython.display import Markdown, display
from matplotlib.figure import Figure
from residual_course import companion
from residual_course.lesson import predict, show
from pathlib import Path
companion.FOLDER = Path("texts")"""
ASK = """\
with predict("How does it end?", ["lower", "higher"]) as guess:
    runs = 3
    print("first")
    show(Figure(figsize=(1, 1)), alt="A square.")
    print("second")
    print("warned", file=sys.stderr)
    display(Markdown("*third*"))
    guess.truth = "higher" if runs > 2 else "lower\""""
READ = """\
print(runs, guess.verdict.value, [type(part).__name__ for part in guess.children])
for output in getattr(guess, "place").outputs:
    print(output.get("name") or output["data"]["text/plain"], output.get("text", "").strip())"""
TEXTS = """\
[predictions."How does it end?"]
after = "That is all."
why.lower = "One hopes so."
why.higher = "It grows."
"""
HELD = ["stdout first", "A square.", "stdout second", "stderr warned", "third"]


def run(folder, *sources, lenient=True):
    """Run cells in a fresh kernel, as a learner does or as the build, and return what each shows."""
    (folder / "texts").mkdir(parents=True, exist_ok=True)
    (folder / "texts" / "00_x.toml").write_text(TEXTS)
    notebook = new_notebook(cells=[new_code_cell(source) for source in (START, *sources)])
    execute(notebook, folder, lambda cell: None, lenient=lenient)
    return [[text(output) for output in cell.outputs] for cell in notebook.cells[1:]]


def text(output):
    data = output.get("data", {})
    said = data.get("text/markdown") or data.get("text/plain") or output.get("text") or output.get("evalue", "")
    return f"{output.get('name', '')} {said.strip()}".strip()


def test_a_learner_sees_the_question_then_after_a_choice_all_of_it_and_after_a_restart_at_once(tmp_path):
    home = tmp_path / "my_lessons"
    before = ASK, READ, 'guess.control.value = "lower"', READ
    asked, waiting, _, told = run(home, *before)
    question = "Predict: How does it end? (lower / higher)"
    assert asked == [question]
    assert waiting == ["stdout 3  ['HTML', 'ToggleButtons', 'HTML', 'Output']"]
    said = told[0].split("\n")
    verdict = '<div role="status">You said lower; we measured higher.</div>'
    assert said[0] == f"stdout 3 {verdict} ['HTML', 'HTML', 'Output']"
    all_of_it = ["One hopes so.", *HELD[:4], "*third*", "That is all."]
    assert [line.strip() for line in said[1:]] == [
        part.replace("*third*", "<IPython.core.display.Markdown object>") for part in all_of_it
    ]
    kept = json.loads((home / "answers.json").read_text())
    assert kept["predictions"] == {"How does it end?": "lower"} and kept["measured"]["How does it end?"] == {
        "text": "higher"
    }
    (again,) = run(home, ASK)
    assert again == [question, *all_of_it]


def test_the_companion_tells_the_truth_where_the_block_does_not(tmp_path, monkeypatch):
    untold = ASK.rpartition("\n")[0]
    monkeypatch.setattr(f"{__name__}.TEXTS", TEXTS + "truth = \"'lower' if runs else 1\"")
    (shown,) = run(tmp_path, untold, lenient=False)
    assert shown[1] == "**You made no prediction; we measured lower.** One hopes so."


def test_a_build_shows_all_of_it(tmp_path):
    (shown,) = run(tmp_path, ASK, lenient=False)
    verdict = "**You made no prediction; we measured higher.** It grows."
    assert shown[1:] == [verdict, *HELD[:4], "*third*", "That is all."]


def test_an_error_is_shown_with_what_came_before_it_and_names_stay(tmp_path):
    raises = ASK.replace("display(", "1 / 0; display(")
    untold = ASK.replace('"higher" if', '"even" if')
    first, second, _, third = run(tmp_path, raises, "print(runs)", 'guess.control.value = "lower"', untold)
    assert first[1:] == ["stdout first", "A square.", "stdout second", "stderr warned", "division by zero"]
    assert second == ["stdout 3"]
    assert third[1:] == [*HELD[:4], "*third*", "guess.truth must be one of 'lower', 'higher', got 'even'"]


def test_a_figure_of_pyplot_waits_too(tmp_path):
    ask = ASK.replace("runs = 3", "runs = 3; import matplotlib.pyplot as plt; plt.figure()")
    asked, _, told = run(tmp_path, ask, 'guess.control.value = "lower"', READ)
    assert asked == ["Predict: How does it end? (lower / higher)"]
    assert "<Figure size" in told[0] and told[0].index("Markdown") < told[0].index("<Figure size")


def test_a_truth_that_is_missing_is_asked_for():
    with (
        pytest.raises(InvalidInput, match=r"^guess\.truth must be one of 'a', 'b', got 'None'$"),
        predict("Which?", ["a", "b"]),
    ):
        pass


def test_no_companion_knows_the_question(monkeypatch, tmp_path):
    monkeypatch.setattr(companion, "FOLDER", tmp_path / "none")
    assert companion.answer_of("How?") == {}

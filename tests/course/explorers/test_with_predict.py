"""A prediction in one open cell: its block runs at once, and what it shows waits for a choice.

A build shows all of it: tests/tools/test_build.py.
"""

import json

from nbformat.v4 import new_code_cell, new_notebook

from tools.execute import execute

START = """\
import sys
for name in [name for name in sys.modules if name.startswith("residual_course")]:
    del sys.modules[name]  # after a restart; a kernel of its own would take five seconds
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
WRONG = ASK.replace('"higher" if', '"even" if')
HELD = ["stdout first", "A square.", "stdout second", "stderr warned"]
QUESTION = "Predict: How does it end? (lower / higher)"


def text(output):
    data = output.get("data", {})
    said = data.get("text/markdown") or data.get("text/plain") or output.get("text") or output.get("evalue", "")
    return f"{output.get('name', '')} {said.strip()}".strip()


def test_a_learner_sees_the_question_then_after_a_choice_all_of_it_and_after_a_restart_at_once(tmp_path):
    home, choose = tmp_path / "my_lessons", 'guess.control.value = "lower"'
    raises = ASK.replace("display(", "1 / 0; display(")
    drawn = ASK.replace("runs = 3", "runs = 3; import matplotlib.pyplot as plt; plt.figure()").replace("does", "did")
    cells = [START, raises, "print(runs)", ASK, READ, choose, READ, drawn, choose, READ, START, ASK, WRONG]
    notebook = new_notebook(cells=[new_code_cell(source) for source in cells])
    (home / "texts").mkdir(parents=True)
    (home / "texts" / "00_x.toml").write_text(TEXTS)
    execute(notebook, home, lambda cell: None, lenient=True)
    cells = [[text(output) for output in cell.outputs] for cell in notebook.cells]
    _, failed, names, asked, waiting, _, told, of_pyplot, _, drawn, _, again, wrong = cells
    assert failed[1:] == [*HELD, "division by zero"] and names == ["stdout 3"]  # an error hides nothing
    assert asked == [QUESTION] and waiting == ["stdout 3  ['HTML', 'ToggleButtons', 'HTML', 'Output']"]
    verdict, *shown = (line.strip() for line in told[0].split("\n"))
    said = '<div role="status">You said lower; we measured higher.</div>'
    assert verdict == f"stdout 3 {said} ['HTML', 'HTML', 'Output']"
    all_of_it = ["One hopes so.", *HELD, "*third*", "That is all."]
    assert shown == [part.replace("*third*", "<IPython.core.display.Markdown object>") for part in all_of_it]
    assert len(of_pyplot) == 1 and drawn[0].index("Markdown") < drawn[0].index("<Figure size")
    kept = json.loads((home / "answers.json").read_text())
    assert kept["predictions"]["How does it end?"] == "lower"
    assert kept["measured"]["How does it end?"] == {"text": "higher"}
    assert again == [QUESTION, *all_of_it]
    assert wrong[1:] == [*HELD, "*third*", "guess.truth must be one of 'lower', 'higher', got 'even'"]

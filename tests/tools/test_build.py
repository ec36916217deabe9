import json
import re
from pathlib import Path

import nbformat
import pytest

from residual_course.commands import main
from residual_course.commands.answers import join
from residual_course.commands.checkout import companion_of
from residual_course.commands.notebook import plan
from tools.lint.code import RULES as CODE
from tools.lint.outputs import RULES as OUTPUTS
from tools.states import states_of

LESSON = """# %% [markdown]
# # A small lesson

# %%
import torch
from matplotlib.figure import Figure
from residual_course.lesson import predict, setup, show
device = setup()

# %% tags=["predict"]
guess = predict("Does a walk come back", ["yes", "no"])

# %% [markdown]
# A walk.

# %%
print(object())
fig = Figure(figsize=(3, 2))
fig.add_subplot().plot(torch.randn(50).cumsum(0))
show(fig, alt="A random walk of fifty steps.")

# %% [markdown]
# Does it?

# %% tags=["reveal"]
print(object())
guess.reveal("yes" if len(fig.axes) else "no")

# %% [markdown]
# ### Exercise 1

# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "twice", "solution": true}
def twice(x):
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "twice-check", "solution": false}
print(twice.__name__)
"""


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    (tmp_path / "notebooks" / "source").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    return tmp_path / "notebooks"


@pytest.fixture
def built(checkout):
    """A two-cell lesson and its notebook, as if it had been executed."""
    source = checkout / "source" / "00_small.py"
    source.write_text('# %% [markdown]\n# # Title\n\n# %% tags=["predict"]\nprint(1)\n')
    notebook = plan(source)
    notebook.cells[1].update(execution_count=1, outputs=[nbformat.v4.new_output("stream", text="1\n")])
    nbformat.write(notebook, checkout / "00_small.ipynb")
    return source, checkout / "00_small.ipynb"


def check(capsys):
    code = main(["build", "--check"])
    return code, capsys.readouterr().out


@pytest.mark.slow
def test_a_lesson_with_a_figure_builds_to_the_same_bytes_twice(checkout, capsys):
    (checkout / "source" / "00_small.py").write_text(LESSON)
    target = checkout / "00_small.ipynb"
    assert main(["build"]) == 0
    answers = checkout / "answers" / "00_small.json"
    first = target.read_bytes(), answers.read_bytes()
    assert re.fullmatch(r"00_small .*12/12 cells, \d+\.\d s\n", capsys.readouterr().out)
    target.unlink()
    assert main(["build", "00"]) == 0
    assert (target.read_bytes(), answers.read_bytes()) == first
    assert check(capsys)[0] == 0
    notebook = nbformat.read(target, as_version=4)
    nbformat.validate(notebook)
    hidden = [cell for cell in notebook.cells if "hide-cell" in cell.metadata.get("tags", [])]
    assert [cell.metadata.tags[0] for cell in hidden] == ["reveal", "solution"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in hidden)
    assert b"we measured" not in first[0] and b"we measured yes" in first[1]
    join(notebook, answers)
    assert [cell.outputs[0].text for cell in hidden] == ["<object object at 0x...>\n", "twice\n"]
    assert [
        finding for rule in [*CODE, *OUTPUTS] for finding in rule(notebook, checkout / "source" / "00_small.py")
    ] == []
    pictures = [o for c in notebook.cells for o in c.get("outputs", []) if "image/png" in o.get("data", {})]
    assert [p.metadata["image/png"].alt for p in pictures] == ["A random walk of fifty steps."]
    assert notebook.cells[2].outputs[0].data == {"text/plain": "Predict: Does a walk come back (yes / no)"}


def test_an_error_stops_with_lesson_cell_and_traceback_and_writes_nothing(checkout, capsys):
    (checkout / "source" / "00_small.py").write_text("# %% [markdown]\n# words\n\n# %%\n1 / 0\n")
    (checkout / "source" / "01_next.py").write_text("# %%\nx = 1\n")
    assert main(["build"]) == 1
    said = capsys.readouterr().out
    assert "00_small.py, cell 2: " in said and "1 / 0" in said and "ZeroDivisionError" in said
    assert list(checkout.glob("*.ipynb")) == []


ONE_CELL = """# %%
from matplotlib.figure import Figure
from residual_course.lesson import predict, show

# %% walk
with predict("Does a walk come back", ["yes", "no"]) as guess:
    steps = 3
    print("after", steps)
    show(Figure(figsize=(1, 1)))
    guess.truth = "yes" if steps == 3 else "no"
"""
TEXTS = '[cells.walk]\nholds = ["steps == 3"]\nalt = ["A walk."]\n'


def test_a_prediction_s_answer_is_stored_apart_with_the_words_of_its_companion_whose_bands_hold(checkout, capsys):
    source, target = checkout / "source" / "00_small.py", checkout / "00_small.ipynb"
    source.write_text(ONE_CELL)
    companion = companion_of(source)
    companion.parent.mkdir(parents=True)
    companion.write_text(TEXTS.replace("== 3", "== 4"))
    assert main(["build"]) == 1 and "cell 2: it does not hold that steps == 4" in capsys.readouterr().out
    companion.write_text(TEXTS.replace("walk]", "way]"))
    assert main(["build"]) == 2 and not target.exists()
    assert capsys.readouterr().err.startswith("00_small.toml names the cell 'way', and 0 cells have this title")
    companion.write_text(TEXTS)
    assert main(["build"]) == 0
    notebook = nbformat.read(target, as_version=4)
    cell = notebook.cells[1]
    assert (cell.metadata, cell.outputs, cell.execution_count) == ({"title": "walk"}, [], None)
    join(notebook, checkout / "answers" / "00_small.json")
    asked, verdict, printed, picture = cell.outputs
    assert verdict.data["text/markdown"] == "**You made no prediction; we measured yes.**"
    assert printed.text == "after 3\n" and picture.metadata["image/png"].alt == "A walk."
    assert check(capsys)[0] == 0
    companion.write_text(TEXTS.replace("A walk", "A way"))
    assert "00_small.ipynb has other alternative texts than 00_small.toml; run" in check(capsys)[1]
    companion.rename(companion.with_stem("09_gone"))
    assert check(capsys)[1] == "09_gone.toml is the companion of no lesson\n"


def test_check_is_content_with_what_build_wrote(built, capsys):
    assert check(capsys) == (0, "Every notebook is what its source builds.\n")


def test_check_shows_answers_that_are_missing_or_belong_to_no_lesson(built, capsys):
    source, target = built
    source.write_text(source.read_text() + '\n# %% tags=["reveal"]\nprint(2)\n')
    notebook = plan(source)
    notebook.cells[1].update(execution_count=1, outputs=[nbformat.v4.new_output("stream", text="1\n")])
    nbformat.write(notebook, target)
    code, said = check(capsys)
    assert code == 1 and "answers/00_small.json holds the outputs of other cells; run: residual-edu build" in said
    (target.parent / "answers").mkdir()
    (target.parent / "answers" / "00_small.json").write_text(json.dumps({notebook.cells[2].id: []}))
    assert check(capsys)[0] == 0
    (target.parent / "answers" / "01_gone.json").write_text("{}")
    assert check(capsys)[1] == "01_gone.json has no source; delete it, or write its source\n"


def test_check_shows_one_character_changed_in_the_source(built, capsys):
    source, _ = built
    source.write_text(source.read_text().replace("print(1)", "print(2)"))
    code, said = check(capsys)
    assert code == 1
    assert "--- notebooks/00_small.ipynb\n+++ notebooks/source/00_small.py\n" in said
    assert "\n-print(1)\n" in said and "\n+print(2)" in said


def test_check_shows_one_character_changed_in_the_notebook(built, capsys):
    _, target = built
    target.write_text(target.read_text().replace("# Title", "# Titel"))
    code, said = check(capsys)
    assert code == 1
    assert "\n-# Titel\n" in said and "\n+# Title\n" in said


OTHER = [('"predict"', '"predicts"'), ('"python3"', '"python4"'), ('"id": "', '"id": "a')]


@pytest.mark.parametrize(("old", "new"), OTHER)
def test_check_shows_a_changed_tag_kernel_or_id(built, capsys, old, new):
    _, target = built
    assert old in target.read_text()
    target.write_text(target.read_text().replace(old, new))
    code, said = check(capsys)
    assert code == 1 and said.startswith("--- notebooks/00_small.ipynb")


def test_changed_text_is_written_without_a_kernel_and_the_outputs_stay(built, capsys):
    source, target = built
    source.write_text(source.read_text().replace("# Title", "# Another title"))
    assert main(["build", "--text", "00"]) == 0 and check(capsys)[0] == 0
    title, cell = nbformat.read(target, as_version=4).cells
    assert (title.source, cell.outputs[0].text, cell.execution_count) == ("# Another title", "1\n", 1)
    before = target.read_bytes()
    source.write_text(source.read_text().replace("print(1)", "print(2)"))
    assert main(["build", "--text"]) == 2 and target.read_bytes() == before
    assert "00_small.ipynb is missing or has other code than 00_small.py" in capsys.readouterr().err


def test_check_shows_a_cell_that_is_gone(built, capsys):
    source, _ = built
    source.write_text(source.read_text().partition("# %% tags")[0])
    code, said = check(capsys)
    assert code == 1 and "\n-print(1)" in said


def test_check_says_missing_unexecuted_and_without_source(built, capsys):
    source, target = built
    notebook = nbformat.read(target, as_version=4)
    notebook.cells[1].execution_count = None
    nbformat.write(notebook, target)
    nbformat.write(notebook, target.with_name("09_extra.ipynb"))
    source.with_name("01_next.py").write_text("# %%\nx = 1\n")
    code, said = check(capsys)
    assert code == 1
    assert said.splitlines() == [
        "00_small.ipynb holds code cells that were never executed; run: residual-edu build 00_small",
        "01_next.ipynb is missing; run: residual-edu build 01_next",
        "09_extra.ipynb has no source; delete it, or write its source",
    ]


def test_check_of_one_lesson_leaves_the_others_alone(built, capsys):
    source, _ = built
    source.with_name("01_next.py").write_text("# %%\nx = 1\n")
    assert main(["build", "--check", "00"]) == 0
    assert main(["build", "--check", "01"]) == 1


def test_homework_is_built_beside_the_lessons_and_missed_like_them(checkout, capsys):
    homework = checkout / "source" / "homework"
    homework.mkdir()
    (homework / "hw_00_01.py").write_text("# %%\nx = 1\n")
    assert main(["build", "hw"]) == 0
    target = checkout / "homework" / "hw_00_01.ipynb"
    assert target.exists()
    capsys.readouterr()
    target.rename(target.with_name("hw_08_09.ipynb"))
    code, said = check(capsys)
    assert code == 1
    assert said.splitlines() == [
        "hw_00_01.ipynb is missing; run: residual-edu build hw_00_01",
        "hw_08_09.ipynb has no source; delete it, or write its source",
    ]


EXPLORER = """# %% tags=["explorer"]
import ipywidgets as widgets
from matplotlib.figure import Figure
from residual_course.explorers import Explorer
axes = (figure := Figure(figsize=(6, 1))).add_subplot(xlim=(0, 1), ylim=(0, 3))
bar = axes.bar(0.5, 1)[0]

def draw(height):
    bar.set_height(height)
    return f"height {height}"

heights = {"height": widgets.IntSlider(value=1, max=2)}
Explorer(figure, draw, heights, alt="A bar.", animated=[bar], states={"height": [0, 1, 2]})
"""


def test_the_states_of_an_explorer_are_drawn_beside_the_notebook_and_leave_no_trace_in_it(checkout, capsys):
    (checkout / "source" / "00_small.py").write_text(EXPLORER)
    states = checkout.parent / "docs" / "states" / "00"
    (states / "1").mkdir(parents=True)
    (states / "1" / "old.png").write_bytes(b"")
    assert main(["build"]) == 0 and "1/1 cells" in capsys.readouterr().out
    assert sorted(path.name for path in (states / "1").iterdir()) == ["0.png", "1.png", "2.png", "index.json"]
    (cell,) = nbformat.read(checkout / "00_small.ipynb", as_version=4).cells
    assert cell.source == EXPLORER.partition("\n")[2].strip() and cell.outputs[0].data["text/plain"] == "A bar."
    assert check(capsys)[0] == 0


def test_a_lesson_and_its_investigation_keep_their_states_apart(checkout):
    lesson = states_of(checkout / "source" / "08a_attention.py")
    why = states_of(checkout / "investigations" / "source" / "08a_why.py")
    assert lesson.name == "08a" and why == checkout.parent / "docs" / "states" / "08a_why"

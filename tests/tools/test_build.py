"""A source builds to the same notebook each time, and the check shows each difference between the two."""

import json
import re
from pathlib import Path

import nbformat
import pytest

from residual_course.commands import main
from residual_course.commands.answers import join
from residual_course.commands.checkout import companion_of
from residual_course.commands.notebook import plan

LESSON = """# %% [markdown]
# # A small lesson

# %%
import torch
from matplotlib.figure import Figure
from pathlib import Path
from residual_course import companion
from residual_course.lesson import predict, setup, show
companion.FOLDER = Path("../residual_course/data/lessons")
device = setup()
print(object())

# %% walk
with predict("Does a walk come back", ["yes", "no"]) as guess:
    steps = 3
    print("after", steps)
    show((fig := Figure(figsize=(3, 2))).add_subplot(title="A walk").plot(torch.randn(9)) and fig)
    guess.truth = "yes" if steps == 3 else "no"

# %%
with predict("Which", ["x", "y"]):
    pass

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
TEXTS = """[cells.walk]
holds = ["steps == 3"]
alt = ["A walk."]
[predictions."Does a walk come back"]
after = "That is all."
why.yes = "It does."
[predictions.Which]
truth = "'x' if steps else 1"
why.x = "So it is."
"""


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    (tmp_path / "notebooks" / "source").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    return tmp_path / "notebooks"


@pytest.fixture
def built(checkout):
    """A lesson of three cells and its notebook, as if it had been executed."""
    source = checkout / "source" / "00_small.py"
    text = '# %% [markdown]\n# # Title\n\n# %% tags=["trained"]\nprint(1)\n\n# %% tags=["solution"]\nprint(3)\n'
    source.write_text(text)
    notebook = plan(source)
    notebook.cells[1].update(execution_count=1, outputs=[nbformat.v4.new_output("stream", text="1\n")])
    nbformat.write(notebook, checkout / "00_small.ipynb")
    (checkout / "answers").mkdir()
    (checkout / "answers" / "00_small.json").write_text(json.dumps({notebook.cells[2].id: []}))
    return source, checkout / "00_small.ipynb"


def check(capsys):
    code = main(["build", "--check"])
    return code, capsys.readouterr().out


def test_a_lesson_builds_to_the_same_bytes_twice_with_its_answers_apart_and_its_companions_words(checkout, capsys):
    source, target, answers = (checkout / f"{at}00_small.{end}" for at, end in (
        ("source/", "py"), ("", "ipynb"), ("answers/", "json"),
    ))  # fmt: skip
    source.write_text(LESSON)
    companion = companion_of(source)
    companion.parent.mkdir(parents=True)
    companion.write_text(TEXTS.replace("walk]", "way]"))
    assert main(["build"]) == 2 and not target.exists()
    assert capsys.readouterr().err.startswith("00_small.toml names the cell 'way', and 0 cells have this title")
    companion.write_text(TEXTS)
    assert main(["build"]) == 0
    assert re.fullmatch(r"00_small .*9/9 cells, \d+\.\d s\n", capsys.readouterr().out)
    first = target.read_bytes(), answers.read_bytes()
    target.unlink()
    assert main(["build", "00"]) == 0 and (target.read_bytes(), answers.read_bytes()) == first
    assert b"we measured" not in first[0] and b"we measured yes" in first[1] and check(capsys)[0] == 0
    notebook = nbformat.read(target, as_version=4)
    nbformat.validate(notebook)
    walk, untold, solution = notebook.cells[2], notebook.cells[3], notebook.cells[-1]
    assert notebook.cells[1].outputs[0].text == "<object object at 0x...>\n" and "solution" in solution.metadata.tags
    assert all(cell.outputs == [] and cell.execution_count is None for cell in (walk, solution))
    join(notebook, answers)
    _, verdict, printed, picture, after = walk.outputs
    assert verdict.data["text/markdown"] == "**You made no prediction; we measured yes.** It does."
    assert printed.text == "after 3\n" and picture.metadata["image/png"].alt == "A walk."
    assert after.data["text/markdown"] == "That is all."
    assert untold.outputs[1].data["text/markdown"] == "**You made no prediction; we measured x.** So it is."
    assert solution.outputs[0].text == "twice\n"
    companion.write_text(TEXTS.replace("A walk", "A way"))
    assert "00_small.ipynb has other alternative texts than 00_small.toml; run" in check(capsys)[1]
    companion.rename(companion.with_stem("09_gone"))
    assert check(capsys)[1] == "09_gone.toml is the companion of no lesson\n"


def test_an_error_or_a_broken_claim_stops_with_lesson_and_cell_and_writes_nothing(checkout, capsys):
    source = checkout / "source" / "00_small.py"
    source.write_text("# %% [markdown]\n# words\n\n# %% one\nx = 1\n\n# %%\n1 / 0\n")
    source.with_name("01_next.py").write_text("# %%\nx = 1\n")
    assert main(["build"]) == 1
    said = capsys.readouterr().out
    assert "00_small.py, cell 3: " in said and "1 / 0" in said and "ZeroDivisionError" in said
    companion_of(source).parent.mkdir(parents=True)
    companion_of(source).write_text('cells.one.holds = ["x == 2"]\n')
    assert main(["build"]) == 1 and "00_small.py, cell 2: it does not hold that x == 2" in capsys.readouterr().out
    assert list(checkout.glob("*.ipynb")) == []


CHANGES = {"trained": "trainer", "python3": "python4", '"id": "': '"id": "a', "# Title": "# Titel", "markdown": "raw"}


@pytest.mark.parametrize(("old", "new"), CHANGES.items())
def test_the_check_shows_a_changed_tag_kernel_id_character_or_kind(built, capsys, old, new):
    source, target = built
    assert check(capsys) == (0, "Every notebook is what its source builds.\n")
    target.write_text(target.read_text().replace(old, new))
    code, said = check(capsys)
    assert code == 1 and said.startswith("--- notebooks/00_small.ipynb\n+++ notebooks/source/00_small.py\n")


def test_the_check_says_what_is_missing_unexecuted_and_without_source(built, capsys):
    source, target = built
    notebook = nbformat.read(target, as_version=4)
    notebook.cells[1].execution_count = None
    for path in (target, target.with_name("09_extra.ipynb")):
        nbformat.write(notebook, path)
    (target.parent / "answers" / "00_small.json").rename(target.parent / "answers" / "01_gone.json")
    source.with_name("01_next.py").write_text("# %%\nx = 1\n")
    (source.parent / "homework").mkdir()
    (source.parent / "homework" / "hw_00_01.py").write_text("# %%\nx = 1\n")
    code, said = check(capsys)
    assert code == 1
    assert said.splitlines() == [
        "notebooks/answers/00_small.json holds the outputs of other cells; run: residual-edu build 00_small",
        "00_small.ipynb holds code cells that were never executed; run: residual-edu build 00_small",
        "01_next.ipynb is missing; run: residual-edu build 01_next",
        "hw_00_01.ipynb is missing; run: residual-edu build hw_00_01",
        "09_extra.ipynb has no source; delete it, or write its source",
        "01_gone.json has no source; delete it, or write its source",
    ]


def test_changed_text_is_written_without_a_kernel_and_the_outputs_stay(built, capsys):
    source, target = built
    source.write_text(source.read_text().replace("# Title", "# Another title"))
    assert main(["build", "--text", "00"]) == 0 and check(capsys)[0] == 0
    title, cell, _ = nbformat.read(target, as_version=4).cells
    assert (title.source, cell.outputs[0].text, cell.execution_count) == ("# Another title", "1\n", 1)
    before = target.read_bytes()
    source.write_text(source.read_text().replace("print(1)", "print(2)"))
    assert main(["build", "--text"]) == 2 and target.read_bytes() == before
    assert "00_small.ipynb is missing or has other code than 00_small.py" in capsys.readouterr().err

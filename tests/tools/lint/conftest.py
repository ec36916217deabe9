"""A lesson without a flaw, as a source and as a built notebook; the tests plant one fault each."""

from copy import deepcopy

import jupytext
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from residual_course.commands.answers import answers_of, store
from residual_course.commands.notebook import plan
from tools.lint import lint

OPENING = "# A lesson\n\nAfter these 35 minutes you can\n- place a norm,\n- repair a gate."
IMPORTS = 'import torch\nfrom residual_course.lesson import check, predict, progress, show, summary\n\nprogress("00")'
PIECE = '''import torch


def centre(x: torch.Tensor, start: int = 0) -> torch.Tensor:
    """Return x without its mean."""
    return x - x.mean() + start


class Centre(torch.nn.Module):
    """Takes the mean away."""

    def forward(self, x):
        return sum(centre(each) for each in x)'''
SPEC = """### Exercise · 5 minutes · ●●○○○
Write it.
<details><summary>Hint 1</summary>Think.</details>
<details><summary>Hint 2</summary>Look above.</details>"""
ON = "## Next\n\n- [Glossary](../docs/glossary.md)"
CLOSING = "| law | number seen | where it holds |\n|---|---|---|\n| the mean is zero | 0.0 | everywhere |"


def code(source, *tags, **nbgrader):
    return new_code_cell(source, metadata={"tags": list(tags)} | ({"nbgrader": nbgrader} if nbgrader else {}))


REVEAL = """# Answer first, then run this cell.
middle = centre(1)
show(middle, alt="A dot.")
guess.reveal(
    str(middle),
    why={"0": "Each number loses the mean.", "1": "That is the length."},
    after="So it is.")"""


def experiment():
    cells = [new_markdown_cell("What will it be?"), code('guess = predict("the mean", ["0", "1"])', "predict")]
    return [*cells, code(REVEAL, "reveal"), new_markdown_cell("And now?")]


def exercise(name):
    task = code(f"def {name}():\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION", "exercise")
    task.metadata.nbgrader = nbformat.from_dict({"grade_id": name, "solution": True, "grade": False})
    check = code(f'check({name}, "{name}")', grade_id=f"{name}-check", solution=False, grade=True)
    return [new_markdown_cell(SPEC), task, check, new_markdown_cell("Well.")]


@pytest.fixture
def source():
    """The source of a clean lesson."""
    cells = [
        new_markdown_cell(OPENING),
        code(IMPORTS),
        new_markdown_cell("A piece."),
        code(PIECE, "promote:parts/centre"),
    ]
    cells += [new_markdown_cell("Six questions."), *(cell for _ in range(6) for cell in experiment())]
    cells += [new_markdown_cell("Move it."), code("centre(2)", "explorer"), new_markdown_cell("It moves.")]
    cells += [cell for name in ("one", "two", "three") for cell in exercise(name)]
    return new_notebook(cells=[*cells, new_markdown_cell(CLOSING), code('summary("00")'), new_markdown_cell(ON)])


@pytest.fixture
def built(source, tmp_path):
    """The notebook that the clean lesson builds, as if executed."""
    path = tmp_path / "planned.py"
    jupytext.write(source, path, fmt="py:percent")
    notebook = plan(path)
    for count, cell in enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), 1):
        picture = new_output("display_data", {"image/png": "iVBORw0=", "text/plain": "A dot."})
        measured = new_output("display_data", {"text/markdown": "**You made no prediction; we measured 0.** Each"})
        picture.metadata = nbformat.from_dict({"image/png": {"alt": "A dot."}})
        cell.outputs = [picture] if "show(" in cell.source else [new_output("stream", text="The mean is 0.25.\n")]
        cell.outputs += [measured] if ".reveal(" in cell.source else []
        cell.execution_count = count
    return notebook


@pytest.fixture
def findings(tmp_path):
    """Write a notebook as ``lesson.py`` or ``lesson.ipynb`` into a checkout and return what lint finds."""
    folder = tmp_path / "notebooks" / "source"
    folder.mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "glossary.md").touch()

    def find(notebook, name):
        stored, path = deepcopy(notebook), (folder if name.endswith(".py") else folder.parent) / name
        if name.endswith(".ipynb"):
            store(stored, answers_of(path))
        jupytext.write(stored, path, fmt="py:percent" if name.endswith(".py") else "ipynb")
        return lint(path)

    return find


@pytest.fixture
def first():
    """Return the first cell that carries a tag."""
    return lambda notebook, tag: next(cell for cell in notebook.cells if tag in cell.metadata.get("tags", []))

"""A lesson without a flaw in a checkout of its own; the tests plant one fault each."""

import jupytext
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from residual_course.commands.answers import answers_of, store
from residual_course.commands.checkout import companion_of, notebook_of
from residual_course.commands.notebook import plan
from tools.lint import lint

IMPORTS = 'import torch\nfrom residual_course.lesson import check, predict, progress, show, summary\n\nprogress("00")'
PIECE = '''def centre(x: torch.Tensor) -> torch.Tensor:
    """Return x without its mean."""
    return x - x.mean()'''
ASK = """with predict("What is the mean?", ["zero", "one"]) as guess:
    middle = centre(1)
    show(middle)
    guess.truth = "zero" if middle == 0 else "one\""""
TEXTS = """[predictions."What is the mean?"]
why.zero = "It was taken away."
why.one = "It was not."
"""
ON = "## Next\n\n- [Glossary](../docs/glossary.md)"


def code(source, *tags, **metadata):
    return new_code_cell(source, metadata={"tags": list(tags), **metadata})


def exercise(name):
    about = {"grade_id": name, "solution": True, "grade": False}
    task = code(
        f"def {name}():\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION", "exercise", nbgrader=about
    )
    about = {"grade_id": f"{name}-check", "solution": False, "grade": True}
    return [
        new_markdown_cell("### Exercise 1 · The mean (5 minutes)"),
        task,
        code(f'check({name}, "{name}")', nbgrader=about),
    ]


@pytest.fixture
def source():
    """The source of a clean lesson; the fifth cell asks."""
    cells = [new_markdown_cell("# A lesson\n\nIt takes the **mean** away."), code(IMPORTS)]
    cells += [code(PIECE, "promote:parts/centre"), new_markdown_cell("## What is left"), code(ASK, title="asks")]
    cells += [cell for name in ("one", "two") for cell in exercise(name)]
    return new_notebook(cells=[*cells, code('summary("00")'), new_markdown_cell(ON)])


@pytest.fixture
def checkout(tmp_path):
    """The folder of the sources, beside a glossary and companions."""
    folder = tmp_path / "notebooks" / "source"
    folder.mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "glossary.md").touch()
    companion_of(folder / "x.py").parent.mkdir(parents=True)
    return folder


@pytest.fixture
def find(source, checkout):
    """Write the lesson, build it as if executed, let ``spoil`` change its notebook, and return what lint finds."""

    def finds(spoil=lambda built: None, name="00_lesson", texts=TEXTS, spoil_stored=lambda built: None):
        path = checkout / f"{name}.py"
        jupytext.write(source, path, fmt="py:percent")
        companion_of(path).write_text(texts)
        built = plan(path)
        for count, cell in enumerate((cell for cell in built.cells if cell.cell_type == "code"), 1):
            cell.outputs, cell.execution_count = [new_output("stream", text="The mean is 0.25.\n")], count
            if "show(" in cell.source:
                alt = {"image/png": {"alt": "A dot."}}
                cell.outputs.append(new_output("display_data", {"image/png": "iVBORw0="}, metadata=alt))
            if "predict(" in cell.source:
                said = {"text/markdown": "**You made no prediction; we measured zero.** It was."}
                cell.outputs.append(new_output("display_data", said))
        spoil(built)
        store(built, answers_of(notebook_of(path)))
        spoil_stored(built)
        nbformat.write(built, notebook_of(path))
        return [finding.removeprefix(f"{name}: ") for finding in lint(path)]

    return finds

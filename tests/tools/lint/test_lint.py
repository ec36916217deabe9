from copy import deepcopy

import jupytext
import nbformat
import pytest

from residual_course.commands import main
from residual_course.commands.answers import answers_of, store


def test_a_clean_source_has_no_findings(source, findings):
    assert findings(source, "lesson.py") == []


def test_its_built_notebook_has_no_findings(built, findings):
    assert findings(built, "lesson.ipynb") == []


def test_a_finding_begins_with_the_file(source, findings):
    del source.cells[0]
    assert all(finding.startswith("lesson.py: ") for finding in findings(source, "lesson.py"))


@pytest.mark.parametrize(("name", "rules"), [("lesson{}.py", 4), ("lesson{}.ipynb", 1)])
def test_an_appendix_is_held_to_the_rules_of_code_form_and_outputs_alone(source, built, findings, name, rules):
    notebook = source if name.endswith(".py") else built
    notebook.cells = notebook.cells[2:9]  # a piece, and a question with its answer
    notebook.cells[0].source += " It takes 45 minutes."
    for count, cell in enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), 1):
        cell.execution_count = count
    assert findings(notebook, name.format("_more")) == []
    assert len(findings(notebook, name.format(""))) >= rules
    next(cell for cell in notebook.cells if cell.cell_type == "code").source += "\nimport tqdm"
    assert any("uses tqdm" in finding for finding in findings(notebook, name.format("_more")))


@pytest.mark.parametrize("name", ["lesson.py", "lesson.ipynb"])
def test_hidden_tests_are_not_linted(source, built, findings, name, first):
    notebook = source if name.endswith(".py") else built
    hidden = deepcopy(first(notebook, "predict"))
    hidden.update(source="import tqdm\n" + "x = 1\n" * 40, metadata={"tags": ["hidden-test"]}, id="hidden")
    notebook.cells.insert(3, hidden)
    assert findings(notebook, name) == []


@pytest.fixture
def checkout(source, built, tmp_path, monkeypatch):
    """A checkout with the clean lesson as 00, source and notebook, and as 01, source alone."""
    (tmp_path / "notebooks" / "source").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "glossary.md").touch()
    for number, other, place in [("00", "01", -1), ("01", "00", 0)]:
        lesson = deepcopy(source)
        lesson.cells[place].source += f"\n\nSee [lesson {other}]({other}_clean.ipynb)."
        text = jupytext.writes(lesson, fmt="py:percent").replace('("00")', f'("{number}")')
        (tmp_path / "notebooks" / "source" / f"{number}_clean.py").write_text(text)
    notebook = tmp_path / "notebooks" / "00_clean.ipynb"
    store(built, answers_of(notebook))
    nbformat.write(built, notebook)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "notebooks"


def test_the_verb_is_content_with_clean_lessons(checkout, capsys):
    assert main(["lint"]) == 0
    assert capsys.readouterr().out == "Every lesson keeps its rules.\n"


@pytest.mark.parametrize("name", ["00_clean.ipynb", "source/00_clean.py", "source/01_clean.py"])
def test_the_verb_reads_sources_and_notebooks(checkout, capsys, name):
    text = (checkout / name).read_text()
    (checkout / name).write_text(text.replace("import torch", "import tqdm"))
    lesson = name.partition("/")[2] or name
    assert main(["lint", lesson]) == 1
    assert f"{lesson}: cell 2 (import tqdm) uses tqdm" in capsys.readouterr().out
    assert main(["lint", "01" if lesson.startswith("00") else "00"]) == 0

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from residual_course.commands.answers import answers_of, join, missing, store


def printed(text, *tags):
    output = new_output("stream", name="stdout", text=text)
    return new_code_cell(f"print({text!r})", outputs=[output], execution_count=1, metadata={"tags": list(tags)})


@pytest.fixture
def notebook():
    return new_notebook(
        cells=[new_markdown_cell("x"), printed("open"), printed("é", "reveal"), printed("b", "solution")]
    )


def test_what_is_stored_apart_is_joined_again(notebook, tmp_path):
    before, path = nbformat.writes(notebook), tmp_path / "answers" / "00.json"
    store(notebook, path)
    assert [cell.get("outputs") == [] for cell in notebook.cells] == [False, False, True, True]
    assert not missing(notebook, path)
    join(notebook, path)
    for cell in notebook.cells[2:]:
        cell.execution_count = 1
    assert nbformat.writes(notebook) == before


def test_so_is_what_a_prediction_of_one_cell_shows(tmp_path):
    shown = new_output("stream", name="stdout", text="an answer")
    asks = 'with predict("How?", ["so", "not so"]) as guess:\n    guess.truth = "so"'
    notebook = new_notebook(cells=[new_code_cell(asks, outputs=[shown]), new_code_cell("x = 1", outputs=[shown])])
    store(notebook, tmp_path / "00.json")
    assert [len(cell.outputs) for cell in notebook.cells] == [0, 1]


def test_a_notebook_without_any_has_no_file_not_even_an_old_one(notebook, tmp_path):
    path = tmp_path / "00.json"
    store(notebook, path)
    notebook.cells = notebook.cells[:2]
    assert missing(notebook, path)
    store(notebook, path)
    assert not path.exists() and not missing(notebook, path)


def test_they_stand_in_a_folder_beside_the_lessons(tmp_path):
    notebooks = tmp_path / "notebooks"
    assert answers_of(notebooks / "02_x.ipynb") == notebooks / "answers" / "02_x.json"
    assert answers_of(notebooks / "homework" / "hw.ipynb") == notebooks / "answers" / "homework" / "hw.json"

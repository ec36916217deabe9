import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from residual_course.commands.checkout import Refusal
from residual_course.commands.notebook import name_cells, never_executed, outline, plan

SOURCE = """# %% [markdown]
# # Title

# %% tags=["predict"] slideshow={"slide_type": "slide"}
x = 1

# %% A name for the cell
x = 1
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "00_small.py"
    path.write_text(SOURCE)
    return path


def test_a_plan_is_a_valid_notebook_for_the_kernel_python3(source):
    notebook = plan(source)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    assert notebook.metadata.language_info == {"name": "python"}
    assert [cell.source for cell in notebook.cells] == ["# Title", "x = 1", "x = 1"]


def test_only_tags_nbgrader_folding_and_a_title_are_kept(source):
    assert [cell.metadata for cell in plan(source).cells] == [
        {},
        {"tags": ["predict"]},
        {"title": "A name for the cell"},
    ]


def test_the_code_of_a_figure_is_folded_and_its_output_stays_open(source):
    source.write_text('# %% tags=["figure"]\nx = 1\n\n# %% tags=["figure", "trained"]\nx = 2\n')
    for cell in plan(source).cells:
        assert cell.metadata.jupyter == {"source_hidden": True} and cell.metadata.cellView == "form"
        assert cell.metadata.tags[-1] == "hide-input" and "outputs_hidden" not in cell.metadata.jupyter


def test_a_reveal_that_is_a_figure_is_folded_once_with_its_output(source):
    source.write_text('# %% tags=["reveal", "figure"]\nx = 1\n')
    (cell,) = plan(source).cells
    assert cell.metadata.tags == ["reveal", "figure", "hide-cell"]


def test_ids_are_the_same_each_time_and_numbered_where_cells_repeat(source):
    ids = [cell.id for cell in plan(source).cells]
    assert ids == [cell.id for cell in plan(source).cells]
    assert ids[2] == f"{ids[1]}-2"
    assert len(set(ids)) == 3


def test_an_id_depends_on_type_and_text():
    cells = [new_code_cell("a"), new_markdown_cell("a"), new_code_cell("b")]
    name_cells(cells)
    assert len({cell.id for cell in cells}) == 3
    assert all(len(cell.id) == 8 for cell in cells)


def test_an_outline_says_what_the_source_decides(source):
    notebook = plan(source)
    before = outline(notebook)
    notebook.cells[1].outputs = [nbformat.v4.new_output("stream", text="1")]
    notebook.cells[1].execution_count = 3
    assert outline(notebook) == before
    for change in ({"cell_type": "raw"}, {"id": "other"}, {"source": "x = 2"}, {"metadata": {"tags": []}}):
        other = plan(source)
        other.cells[1].update(nbformat.from_dict(change))
        assert outline(other) != before


def test_a_notebook_is_executed_when_every_code_cell_is():
    cells = [new_markdown_cell("words"), new_code_cell("x", execution_count=1), new_code_cell("y")]
    assert never_executed(new_notebook(cells=cells))
    assert not never_executed(new_notebook(cells=cells[:2]))


def test_a_refusal_names_the_lesson(source):
    source.write_text('# %% tags=["exercise"]\ny = 1\n')
    with pytest.raises(Refusal, match="^00_small.py: The exercise 'y = 1' has no nbgrader metadata"):
        plan(source)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "# %%\n<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> main\n",
            "00_small.py, line 2: a merge left its mark here",
        ),
        ("# %% [markdown]\n# Words.\n>>>>>>> 2fc9301\n", "00_small.py, line 3: a merge left its mark here"),
        ("# %%\nx = 'M\udcfcller'\n", "00_small.py, line 2: .* or it is not UTF-8"),
        ("# %%\nx = 1\n=======\nx = 2\n", "00_small.py: the cell 'x = 1' is no Python"),
        ("# %%\nfor x in\n", "00_small.py: the cell 'for x in' is no Python"),
    ],
)
def test_a_source_that_is_not_whole_is_refused_by_its_name(source, text, said):
    source.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(Refusal, match=said):
        plan(source)


def test_what_only_ipython_reads_and_arrows_are_python_too(source):
    source.write_text("# %%\n# %%time\nx = 1 << 7\n!ls\nawait f()\nprint('>>> x', '<<<<<<<<')\n")
    assert len(plan(source).cells) == 1

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from residual_course.commands.notebook import plan
from tools.lint.length import minutes


def test_minutes_are_those_of_the_parts(built):
    before = minutes(built)
    built.cells.insert(3, new_markdown_cell("word " * 150 * 10))
    assert minutes(built) == before + 10  # 150 words a minute
    built.cells.insert(3, new_code_cell("x = 1\n" * 80))
    assert minutes(built) == before + 20  # 8 lines a minute
    built.cells.insert(3, new_code_cell("x = 1\n" * 80, metadata={"jupyter": {"source_hidden": True}}))
    assert minutes(built) == before + 20  # folded code is not read


def test_a_less_than_in_a_formula_hides_no_words(built):
    before = minutes(built)
    built.cells.insert(3, new_markdown_cell("$a < b$ " + "word " * 1497 + "<details>"))
    assert minutes(built) == before + 10


def test_a_figure_takes_half_a_minute_and_its_folded_code_none(built, tmp_path):
    path = tmp_path / "figure.py"
    path.write_text('# %% tags=["figure"]\n' + "x = 1\n" * 80 + "show(x)\n")
    (cell,) = plan(path).cells
    cell.outputs = [new_output("display_data", {"image/png": "iVBORw0=", "text/plain": "ten words " * 10})]
    before = minutes(built)
    built.cells[3:3] = [cell] * 10
    assert minutes(built) == before + 5


def test_an_exercise_counts_where_its_heading_begins_a_cell(built):
    before = minutes(built)
    built.cells[3:3] = [new_markdown_cell("### Exercise 4 · 10 minutes")]
    assert minutes(built) == before + 10


def test_another_number_than_the_computed_one_is_found(built, findings):
    built.cells[0].source = built.cells[0].source.replace("35 minutes", "45 minutes")
    assert findings(built, "lesson.ipynb") == ["lesson.ipynb: the lesson states 45 minutes, and takes 35"]
    built.cells[0].source = built.cells[0].source.replace("45 minutes", "15 minutes")
    assert findings(built, "lesson.ipynb") == ["lesson.ipynb: the lesson states 15 minutes, and takes 35"]


def test_more_than_ninety_minutes_are_found(built, findings):
    built.cells.insert(3, new_markdown_cell("word " * 150 * 80))
    assert "lesson.ipynb: the lesson takes 115 minutes, more than 90" in findings(built, "lesson.ipynb")


def test_a_sixth_law_is_found(source, findings):
    source.cells[-3].source += "\n| another | 1 | here |" * 5
    assert findings(source, "lesson.py") == ["lesson.py: the closing table has 6 laws, more than 5"]


@pytest.mark.parametrize(("lines", "found"), [(20, False), (21, True)])
def test_long_visible_code_is_found_and_folded_code_is_not(built, findings, lines, found):
    built.cells[2:2] = [
        new_code_cell("x = 1\n" * lines, execution_count=1, metadata={"jupyter": {"source_hidden": True}}),
        new_code_cell("x = 1\n" * lines, execution_count=2),
    ]
    said = [finding for finding in findings(built, "lesson.ipynb") if "shows" in finding]
    assert [" shows 21 lines of code, more than 20" in one for one in said] == [True] * found


def test_a_wide_line_is_found(source, findings):
    source.cells[1].source += "\nx = " + "1 + " * 22 + "1"
    assert findings(source, "lesson.py")[0].endswith("has a line of 93 columns, more than 88")

import re

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tools.lint.cells import code_lines

OF_LENGTH = re.compile(r"minutes, and takes| shows \d+ lines of code")  # test_length.py is about these


@pytest.fixture(params=["lesson.py", "lesson.ipynb"])
def both(request, source, built, findings):
    """A lesson's source or notebook, and what lint finds in it."""
    notebook = source if request.param == "lesson.py" else built
    return notebook, lambda: [found for found in findings(notebook, request.param) if not OF_LENGTH.search(found)]


def test_a_magic_is_found(both, first):
    notebook, find = both
    first(notebook, "explorer").source = "%time centre(2)"
    number = notebook.cells.index(first(notebook, "explorer")) + 1
    assert [f.partition(": ")[2] for f in find()] == [
        f"cell {number} (%time centre(2)) is not plain Python: invalid syntax"
    ]


def test_an_unknown_tag_is_found(both, first):
    notebook, find = both
    first(notebook, "explorer").metadata["tags"] += ["figures", "trained-here"]
    assert [found.rpartition(" has the tag ")[2] for found in find()] == [
        "'figures', which means nothing",
        "'trained-here', which means nothing",
    ]


@pytest.mark.parametrize(
    ("code", "found"), [("lesson.show(figure, alt=words)", 0), ("def draw():\n    show(figure)", 0), ("y = 2 * x", 1)]
)
def test_a_figure_that_shows_none_is_found(both, first, code, found):
    notebook, find = both
    cell = first(notebook, "explorer")
    cell.source, cell.metadata["tags"] = code, ["explorer", "figure"]
    assert [
        f.endswith("is tagged figure and shows none; what else a cell does stays open to read") for f in find()
    ] == ([True] * found)


@pytest.mark.parametrize(
    "line",
    [
        "from ipywidgets import interact",
        "from ipywidgets import interactive as moving",
        "import ipywidgets\nipywidgets.Output()",
        "from IPython.display import clear_output",
        "from tqdm.auto import trange",
        "import matplotlib.pyplot as plt",
        "from matplotlib import pyplot",
    ],
)
def test_what_does_not_re_execute_is_found(both, first, line):
    notebook, find = both
    first(notebook, "explorer").source += "\n" + line
    found = find()
    assert len(found) == 1
    assert "which does not re-execute the same or needs a kernel to show" in found[0]


def test_words_in_comments_and_strings_are_free(both, first):
    notebook, find = both
    first(notebook, "explorer").source += '\nx = "interact"  # tqdm'
    assert find() == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", 0),
        ("# a comment\n\nx = 1  # another", 1),
        ('def f():\n    """One.\n\n    Two.\n    """\n    return """a\n    b"""', 3),
        ("x = [\n    1,\n    # why\n    2,\n]", 4),
    ],
)
def test_code_lines_leave_out_prose(text, lines):
    assert code_lines(new_code_cell(text)) == lines


def test_a_long_cell_is_found(both, first):
    notebook, find = both
    cell = first(notebook, "explorer")
    cell.source = "\n".join(f"x{i} = {i}\n# why\n" for i in range(25))
    assert find() == []
    cell.source += "y = 1"
    assert [f.endswith("(x0 = 0) has 26 lines of code, more than 25") for f in find()] == [True]


def trained(cell, source):
    cell.source, cell.metadata.tags = source, [*cell.metadata.tags, "trained"]


@pytest.mark.parametrize("line", ['holds(1 < 2, "It learns.")', 'for x in y:\n    lesson.holds(x < 2, "It learns.")'])
def test_a_trained_cell_with_a_band_is_well(both, first, line):
    notebook, find = both
    trained(first(notebook, "explorer"), f"centre(2)\n{line}")
    assert find() == []


def test_a_trained_cell_without_a_band_is_found(both, first):
    notebook, find = both
    trained(first(notebook, "explorer"), 'centre(2)\nprint("it holds")')
    (found,) = find()
    assert found.endswith("(centre(2)) is tagged trained and has no holds(condition, sentence)")


def test_an_assert_in_a_trained_cell_is_found(both, first):
    notebook, find = both
    trained(first(notebook, "explorer"), 'centre(2)\nholds(1 < 2, "It learns.")\nfor x in y:\n    assert x < 2')
    (found,) = find()
    assert found.endswith("(centre(2)) is tagged trained and asserts; write holds(condition, sentence)")


def test_an_assert_elsewhere_is_none_of_its_business(both, first):
    notebook, find = both
    first(notebook, "explorer").source += "\nassert centre(2) == 2"
    assert find() == []


def test_a_grade_id_used_twice_is_found(both, first):
    notebook, find = both
    first(notebook, "exercise").metadata.nbgrader.grade_id = "two"
    assert [f.partition(": ")[2] for f in find()] == ["the grade_id 'two' stands on 2 cells"]


def test_an_empty_notebook_is_no_crash(findings):
    assert findings(new_notebook(), "lesson.py")
    assert findings(new_notebook(), "lesson.ipynb")

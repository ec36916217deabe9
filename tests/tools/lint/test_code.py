import pytest
from nbformat.v4 import new_code_cell

from tools.lint.cells import code_lines


@pytest.mark.parametrize(
    "line",
    [
        "from ipywidgets import interact",
        "from ipywidgets import interactive as moving",
        "import ipywidgets\nipywidgets.Output()",
        "from tqdm.auto import trange",
        "import matplotlib.pyplot as plt",
    ],
)
def test_what_does_not_re_execute_is_found(source, find, line):
    source.cells[2].source += "\n" + line
    (found,) = find()
    assert "which does not re-execute the same or needs a kernel to show" in found


def test_words_in_comments_and_strings_are_free(source, find):
    source.cells[2].source += '\nx = "interact"  # tqdm'
    assert find() == []


def test_a_magic_and_an_unknown_tag_are_found(source, find):
    source.cells[2].source = "%time centre(2)"
    source.cells[2].metadata["tags"] = ["reveals"]
    assert find() == [
        "cell 3 (%time centre(2)) is not plain Python: invalid syntax",
        "cell 3 (%time centre(2)) has the tag 'reveals', which means nothing",
    ]


def test_a_wide_line_is_found(source, find):
    source.cells[2].source += "\nx = " + "1 + " * 22 + "1"
    assert find()[0].endswith("has a line of 93 columns, more than 88")


def test_a_trained_cell_has_a_band_in_its_code_or_its_companion(source, find):
    source.cells[2].metadata.update(tags=["trained"], title="train")
    (found,) = find()
    assert found.endswith("is tagged trained, and nothing says what holds of its numbers")
    source.cells[2].source += '\nholds(1 < 2, "It learns.")'
    assert find() == []
    source.cells[2].source = "x = 1"
    texts = '[predictions."What is the mean?".why]\nzero = "."\none = "."\n[cells.train]\nholds = ["x == 1"]\n'
    assert find(texts=texts) == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", 0),
        ("# a comment\n\nx = 1  # another", 1),
        ('def f():\n    """One.\n\n    Two.\n    """\n    return """a\n    b"""', 3),
        ("import torch\nfrom torch import (\n    nn,\n)\nx = [\n    1,\n    # why\n    2,\n]", 4),
    ],
)
def test_code_lines_leave_out_prose_and_imports(text, lines):
    assert code_lines(new_code_cell(text)) == lines

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

LONG = " ".join(["word"] * 81)


@pytest.fixture
def find(source, findings):
    return lambda: [finding.removeprefix("lesson.py: ") for finding in findings(source, "lesson.py")]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("guess = predict", "x = 1\nguess = predict", "must be tagged predict and hold nothing else"),
        ("# Answer first, then run this cell.\n", "", "must be tagged reveal and begin with '# Answer first,"),
        ("str(middle)", '"0"', "must compute the truth that it reveals from what it measured"),
        ('"1": "That is the length."', '"2": "Why?"', "gives no reason (why=) for '1'"),
        ("So it is.", LONG, "has a text of 81 words, more than 80: 'word word"),
        ("That is the length.", LONG, "has a text of 81 words, more than 80: 'word word"),
        ("guess.reveal", "other.reveal", " guess' is asked, and no cell reveals it"),
        ('"So it is.")', '"So it is.")\nprint(1)', "must end with its reveal"),
        ('["0", "1"])', ")", "gives no reason (why=) for 'about right', 'too high', 'too low'"),
    ],
)
def test_a_prediction_without_one_of_its_parts_is_found(source, find, old, new, said):
    for cell in source.cells:
        cell.source = cell.source.replace(old, new)
    assert any(said in finding for finding in find())


@pytest.mark.parametrize(
    "told",
    [
        new_markdown_cell("## The mean is 0.25"),
        new_markdown_cell("By the end you can\n\n- say why it is 0.25."),
        new_code_cell('other = predict("Is it above 0.25", ["above", "below"])', metadata={"tags": ["predict"]}),
    ],
)
def test_a_truth_told_before_is_found(built, findings, told, first):
    place = built.cells.index(first(built, "reveal"))
    told.setdefault("outputs", []) if told.cell_type == "code" else None
    built.cells[place].outputs[-1].data["text/markdown"] = "**You made no prediction; we measured 0.25.** So."
    built.cells.insert(2, told)
    assert any("reveals '0.25', which was told before: " in finding for finding in findings(built, "lesson.ipynb"))


@pytest.mark.parametrize("near", ["## The mean is 10.25", "## The mean is 0.255", "The mean is 0.25, in a sentence"])
def test_what_only_resembles_the_truth_gives_nothing_away(built, findings, near, first):
    first(built, "reveal").outputs[-1].data["text/markdown"] = "**You made no prediction; we measured 0.25.** So."
    built.cells.insert(2, new_markdown_cell(near))
    assert not any("told before" in finding for finding in findings(built, "lesson.ipynb"))

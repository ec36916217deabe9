import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell


@pytest.fixture
def find(source, findings):
    return lambda: [finding.removeprefix("lesson.py: ") for finding in findings(source, "lesson.py")]


def place_of(source, tag):
    return next(i for i, cell in enumerate(source.cells) if tag in cell.metadata.get("tags", []))


def test_a_short_lesson_is_found(source, find):
    del source.cells[5:9], source.cells[20:22]
    assert "the lesson has 39 cells, not 40 to 70" in find()


def test_a_long_lesson_is_found(source, find):
    source.cells[5:5] = [cell.copy() for _ in range(7) for cell in source.cells[5:9]]
    assert find() == ["the lesson has 73 cells, not 40 to 70"]


def test_too_much_prose_is_found(source, find):
    for at in [i for i, cell in enumerate(source.cells) if cell.source.startswith(("show", "check"))]:
        source.cells[at] = new_markdown_cell("words")
    assert "73% of the cells are markdown, not 45% to 70%" in find()


def test_too_little_prose_is_found(source, find):
    for at in [i for i, cell in enumerate(source.cells) if cell.source in ("So it is.", "Well.")]:
        source.cells[at] = new_code_cell("x = 1")
    assert "33% of the cells are markdown, not 45% to 70%" in find()


def test_long_steps_are_found(source, find):
    for cell in source.cells:
        if "predict" in cell.metadata.get("tags", []) or "show(" in cell.source:
            cell.source += "\nx = 1" * 6
    assert find() == ["the median code cell has 7 lines of code, more than 6"]


@pytest.mark.parametrize("tag", ["promote:parts/centre", "exercise"])
def test_promoted_cells_and_exercises_do_not_count_as_steps(source, find, tag):
    steps = [cell for cell in source.cells if "predict" in cell.metadata.get("tags", []) or "check(" in cell.source]
    for cell in steps[:8]:  # 8 of 17 steps: one more long cell would move the median
        cell.source += "\nx = 1" * 20
    assert find() == []
    for cell in [cell for cell in source.cells if tag in cell.metadata.get("tags", [])]:
        cell.source += "\n\n" + "\n".join(f"def f{i}(): ..." for i in range(18))
    assert find() == []


def test_a_late_figure_is_found(source, find):
    source.cells[7].source = 'guess.reveal("0")'
    assert find() == ["none of the first 4 code cells shows a figure"]


def test_an_early_explorer_is_a_figure(source, find):
    source.cells[7].source = "centre(3)"
    source.cells[7].metadata.tags = ["explorer"]
    assert find() == []


def test_few_predictions_are_found(source, find):
    source.cells[6].metadata.tags = []
    assert find() == ["5 predictions in 45 cells are fewer than one in 8"]


def test_a_lesson_without_explorer_is_found(source, find, first):
    first(source, "explorer").metadata.tags = []
    assert find() == ["no cell is tagged explorer"]


def test_few_exercises_are_found(source, find, first):
    first(source, "exercise").metadata.tags = []
    assert find() == ["the lesson has 2 exercises, not 3 to 5"]


def test_many_exercises_are_found(source, find):
    for cell in [cell for cell in source.cells if "show(" in cell.source][:3]:
        cell.metadata.tags = ["exercise"]
    assert "the lesson has 6 exercises, not 3 to 5" in find()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("5 minutes", "5 seconds", "exercise 2 does not say its minutes in the cell above it"),
        ("●●○○○", "hard", "exercise 2 does not show its difficulty (such as ●●○○○) in the cell above it"),
        ("<summary>Hint 2", "<summary>Help", "exercise 2 has 1 folded hints in the cell above it, not 2"),
    ],
)
def test_a_bare_exercise_heading_is_found(source, find, old, new, said):
    heading = [cell for cell in source.cells if "### Exercise" in cell.source][1]
    heading.source = heading.source.replace(old, new)
    assert find() == [said]


def test_an_exercise_below_code_has_no_heading(source, find):
    at = place_of(source, "exercise")
    source.cells[at - 1 : at - 1] = [source.cells[at - 1].copy()]
    source.cells[at] = new_code_cell("x = 1")
    assert len([f for f in find() if f.startswith("exercise 1 ")]) == 3


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("- repair a gate.", "", "the first three cells list no goals"),
        ("45 minutes", "hours", "the first three cells do not say how many minutes the lesson takes"),
    ],
)
def test_an_opening_without_goals_or_minutes_is_found(source, find, old, new, said):
    source.cells[0].source = source.cells[0].source.replace(old, new)
    assert find() == [said]


def test_a_lesson_without_a_closing_table_is_found(source, find):
    source.cells[-1].source = "---\nThe laws were many."
    assert find() == ["none of the last three cells holds the closing table of laws"]


@pytest.mark.parametrize("rule", ["|---|---|", "| :-- | --: |", "--- | ---"])
def test_any_table_closes_a_lesson(source, find, rule):
    source.cells[-1].source = f"| law | number |\n{rule}\n| a | 1 |"
    assert find() == []

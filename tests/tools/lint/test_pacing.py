import pytest
from nbformat.v4 import new_code_cell


@pytest.fixture
def find(source, findings):
    return lambda: [finding.removeprefix("lesson.py: ") for finding in findings(source, "lesson.py")]


def place_of(source, tag):
    return next(i for i, cell in enumerate(source.cells) if tag in cell.metadata.get("tags", []))


def test_a_late_figure_is_found(source, find):
    shown = next(cell for cell in source.cells if "show(" in cell.source)
    shown.source = shown.source.replace("show(", "len(")
    assert find() == ["none of the first 4 code cells shows a figure"]


def test_an_early_explorer_is_a_figure(source, find):
    shown = next(cell for cell in source.cells if "show(" in cell.source)
    shown.source = shown.source.replace("show(", "len(")
    source.cells.insert(4, new_code_cell("centre(3)", metadata={"tags": ["explorer"]}))
    assert find() == []


def test_a_lesson_without_explorer_is_found(source, find, first):
    first(source, "explorer").metadata.tags = []
    assert find() == ["no cell is tagged explorer"]


def test_an_explorer_may_stand_in_the_appendix(source, find, first, findings):
    findings(source, "lesson_more.py")
    first(source, "explorer").metadata.tags = []
    assert find() == []


def test_few_exercises_are_found(source, find, first):
    first(source, "exercise").metadata.tags = []
    assert find() == ["the lesson has 2 exercises, not 3 to 5"]


def test_many_exercises_are_found(source, find):
    for cell in [cell for cell in source.cells if "show(" in cell.source][:3]:
        cell.metadata.tags = ["reveal", "exercise"]
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
        ("35 minutes", "hours", "the first three cells do not say how many minutes the lesson takes"),
    ],
)
def test_an_opening_without_goals_or_minutes_is_found(source, find, old, new, said):
    source.cells[0].source = source.cells[0].source.replace(old, new)
    assert find() == [said]


def test_a_lesson_without_a_closing_table_is_found(source, find):
    source.cells[-3].source = "---\nThe laws were many."
    assert find() == ["none of the last three cells holds the closing table of laws"]


@pytest.mark.parametrize("rule", ["|---|---|", "| :-- | --: |", "--- | ---"])
def test_any_table_closes_a_lesson(source, find, rule):
    source.cells[-3].source = f"| law | number |\n{rule}\n| a | 1 |"
    assert find() == []

import re

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from residual_course.commands.checkout import Refusal
from residual_course.commands.exercise_cells import NOTE, learner_cells, shown, solved, stub

SOURCE = '''def scale(x):
    """Return twice x."""
    ### BEGIN SOLUTION
    secret = 2
    return secret * x
    ### END SOLUTION'''

CHECK = """check(scale, "scale")
### BEGIN HIDDEN TESTS
assert scale(21) == 42
### END HIDDEN TESTS"""

TWO = """class Pair:
    def one(self):
        ### BEGIN SOLUTION
        return 1
        ### END SOLUTION

    def two(self):
        if self:
            ### BEGIN SOLUTION
            return 2
            ### END SOLUTION
"""


def exercise(source=SOURCE, **nbgrader):
    metadata = {"tags": ["exercise"], "nbgrader": {"grade_id": "scale", "solution": True, "grade": False} | nbgrader}
    return new_code_cell(source, metadata=metadata)


def check(source=CHECK, **nbgrader):
    metadata = {"nbgrader": {"grade_id": "scale-check", "solution": False, "grade": True} | nbgrader}
    return new_code_cell(source, metadata=metadata)


def run(source):
    names = {"check": lambda *_: None}
    exec(source, names)
    return names


def test_a_stub_keeps_everything_but_the_solution():
    assert stub(SOURCE) == (
        'def scale(x):\n    """Return twice x."""\n    # your code here\n    raise NotImplementedError'
    )
    with pytest.raises(NotImplementedError):
        run(stub(SOURCE))["scale"](1)


def test_each_of_several_solutions_is_blanked_at_its_own_indentation():
    pair = run(stub(TWO))["Pair"]()
    for method in (pair.one, pair.two):
        with pytest.raises(NotImplementedError):
            method()


def test_the_solution_is_the_source_without_marks():
    assert "###" not in solved(SOURCE + "\n" + TWO)
    assert run(solved(SOURCE))["scale"](21) == 42
    assert run(solved(TWO))["Pair"]().two() == 2


def test_homework_ends_with_its_check():
    homework = exercise()
    homework.metadata["tags"].append("homework")
    stub_cell, check_cell, after = learner_cells([homework, check(), new_markdown_cell("after")])
    assert stub_cell.source == stub(SOURCE) and check_cell.source == shown(CHECK) and after.source == "after"


def test_hidden_tests_are_cut_and_the_rest_stays():
    assert shown(CHECK) == 'check(scale, "scale")'
    assert shown(f"before\n{CHECK}\nafter") == 'before\ncheck(scale, "scale")\nafter'
    assert shown(f"{CHECK}\n{CHECK}") == 'check(scale, "scale")\ncheck(scale, "scale")'


def test_an_exercise_becomes_stub_check_note_and_folded_solution():
    spec, after = new_markdown_cell("spec"), new_markdown_cell("after")
    cells = list(learner_cells([spec, exercise(), check(), after]))
    assert [cell.cell_type for cell in cells] == ["markdown", "code", "code", "markdown", "code", "markdown"]
    _, blank, test, note, folded, _ = cells
    assert (blank.source, test.source, note.source) == (stub(SOURCE), 'check(scale, "scale")', NOTE)
    assert folded.source == f'{solved(SOURCE)}\n\ncheck(scale, "scale")'
    assert folded.metadata == {"tags": ["solution"]}
    assert blank.metadata.tags == ["exercise"]
    assert [cell.metadata.nbgrader.grade_id for cell in cells if "nbgrader" in cell.metadata] == [
        "scale",
        "scale-check",
    ]


def test_neither_solution_nor_hidden_test_shows_above_the_fold():
    hidden = new_code_cell("assert scale(0) == 0", metadata={"tags": ["hidden-test"]})
    cells = list(learner_cells([exercise(), check(), hidden]))
    assert [cell.source for cell in cells[4:]] == ["# More tests are run here when this notebook is graded."]
    assert not re.search("HIDDEN|21|scale.0.", "".join(cell.source for cell in cells))
    assert "secret" not in "".join(cell.source for cell in cells[:3])


UNWHOLE = "The exercise 'scale' needs whole pairs of ### BEGIN SOLUTION and ### END SOLUTION."
UNCHECKED = r"The exercise 'scale' has no check cell \(nbgrader grade: true\) right below it."


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([exercise(solution=False), check()], "The exercise 'scale' has no nbgrader metadata with a grade_id"),
        ([new_code_cell("y = 1", metadata={"tags": ["exercise"]}), check()], "The exercise 'y = 1' has no nbgrader"),
        ([exercise("def scale(x): ..."), check()], UNWHOLE),
        ([exercise(SOURCE.replace("### END SOLUTION", "")), check()], UNWHOLE),
        ([exercise(SOURCE + "\n    ### END SOLUTION"), check()], UNWHOLE),
        ([exercise(SOURCE + "\n    ### BEGIN SOLUTION"), check()], UNWHOLE),
        ([exercise()], UNCHECKED),
        ([exercise(), new_markdown_cell("words"), check()], UNCHECKED),
        ([exercise(), check(grade=False)], UNCHECKED),
    ],
)
def test_an_exercise_that_is_not_whole_is_refused(cells, message):
    with pytest.raises(Refusal, match=message):
        list(learner_cells(cells))

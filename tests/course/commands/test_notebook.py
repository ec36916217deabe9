"""From a source to what a learner opens: stubs in place of solutions, ids that last, answers stored apart."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from residual_course.commands.answers import answers_of, join, missing, store
from residual_course.commands.checkout import Refusal
from residual_course.commands.exercise_cells import learner_cells, shown, solved, stub
from residual_course.commands.notebook import never_executed, plan

SOURCE = """# %% [markdown]
# # Title

# %% tags=["trained"] slideshow={"slide_type": "slide"}
x = 1

# %% A name for the cell
x = 1
"""
EXERCISE = '''def scale(x):
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


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "00_small.py"
    path.write_text(SOURCE)
    return path


def exercise(source=EXERCISE, tags=("exercise",), **nbgrader):
    about = {"grade_id": "scale", "solution": True, "grade": False} | nbgrader
    return new_code_cell(source, metadata={"tags": list(tags), "nbgrader": about})


def check(**nbgrader):
    metadata = {"nbgrader": {"grade_id": "scale-check", "solution": False, "grade": True} | nbgrader}
    return new_code_cell(CHECK, metadata=metadata)


def run(source):
    names = {"check": lambda *_: None}
    exec(source, names)
    return names


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# %%\n<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> main\n", ", line 2: a merge left its mark here"),
        ("# %% [markdown]\n# Words.\n>>>>>>> 2fc9301\n", ", line 3: a merge left its mark here"),
        ("# %%\nx = 'M\udcfcller'\n", ", line 2: .* or it is not UTF-8"),
        ("# %%\nx = 1\n=======\nx = 2\n", ", line 3: a merge left its mark here"),
        ("# %%\nx = 1\n||||||| 2fc9301\n", ", line 3: a merge left its mark here"),
        ("# %%\nx = 1 +\n", ": the cell 'x = 1 .' is no Python"),
        ('# %% tags=["exercise"]\ny = 1\n', ": The exercise 'y = 1' has no nbgrader metadata"),
    ],
)
def test_a_source_that_is_not_whole_is_refused_by_its_name(source, text, said):
    source.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(Refusal, match=f"00_small.py{said}"):
        plan(source)


def test_what_only_ipython_reads_and_arrows_are_python_too(source):
    source.write_text("# %%\n# %%time\nx = 1 << 7\n!ls\nawait f()\nprint('>>> x', '<<<<<<<<')\n")
    assert len(plan(source).cells) == 1


def test_a_stub_keeps_all_but_the_solutions_which_hold_without_their_marks():
    blank = '    """Return twice x."""\n    # your code here\n    raise NotImplementedError'
    assert stub(EXERCISE) == f"def scale(x):\n{blank}"
    for method in (run(stub(TWO))["Pair"]().one, run(stub(TWO))["Pair"]().two):
        with pytest.raises(NotImplementedError):
            method()
    assert run(solved(EXERCISE))["scale"](21) == 42 and run(solved(TWO))["Pair"]().two() == 2
    assert "###" not in solved(EXERCISE + "\n" + TWO)
    assert shown(f"before\n{CHECK}\nafter\n{CHECK}") == 'before\ncheck(scale, "scale")\nafter\ncheck(scale, "scale")'


UNWHOLE = "The exercise 'scale' needs whole pairs of ### BEGIN SOLUTION and ### END SOLUTION."
UNCHECKED = r"The exercise 'scale' has no check cell \(nbgrader grade: true\) right below it."


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([exercise(solution=False), check()], "The exercise 'scale' has no nbgrader metadata with a grade_id"),
        ([exercise("def scale(x): ..."), check()], UNWHOLE),
        ([exercise(EXERCISE.replace("### END SOLUTION", "")), check()], UNWHOLE),
        ([exercise(EXERCISE + "\n    ### END SOLUTION"), check()], UNWHOLE),
        ([exercise()], UNCHECKED),
        ([exercise(), new_markdown_cell("words"), check()], UNCHECKED),
        ([exercise(), check(grade=False)], UNCHECKED),
    ],
)
def test_an_exercise_that_is_not_whole_is_refused(cells, message):
    with pytest.raises(Refusal, match=message):
        list(learner_cells(cells))


def printed(text, *tags):
    output = new_output("stream", name="stdout", text=text)
    return new_code_cell(f"print({text!r})", outputs=[output], execution_count=1, metadata={"tags": list(tags)})


def test_answers_are_stored_apart_and_joined_again(tmp_path):
    asks = printed("b")
    asks.source = 'with predict("How?", ["so", "not so"]) as guess:\n    guess.truth = "so"'
    cells = [new_markdown_cell("x"), printed("open"), printed("é", "solution"), printed("b", "solution"), asks]
    notebook, path = new_notebook(cells=cells), answers_of(tmp_path / "notebooks" / "homework" / "hw.ipynb")
    assert path == tmp_path / "notebooks" / "answers" / "homework" / "hw.json"
    before = nbformat.writes(notebook)
    store(notebook, path)
    assert [cell.get("outputs") == [] for cell in notebook.cells] == [False, False, True, True, True]
    assert not missing(notebook, path) and not never_executed(notebook)
    join(notebook, path)
    for cell in notebook.cells[2:]:
        cell.execution_count = 1
    assert nbformat.writes(notebook) == before
    notebook.cells = [*notebook.cells[:2], new_code_cell("y")]
    assert missing(notebook, path) and never_executed(notebook)
    store(notebook, path)
    assert not path.exists() and not missing(notebook, path)

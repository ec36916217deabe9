"""What a learner sees of a check in a notebook, in IPython, and in plain Python: the report, and no traceback."""

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.usefixtures("all_as_installed")

SETUP = """
import sys
from residual_course.exercises import check
from residual_course.checking import guard
from residual_course.checking.catalogue import catalogue
from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet
def is_seven(f):
    if f() != 7:
        raise Unmet("it is not 7")
catalogue()["seven"] = Exercise(
    lambda: 7, lambda f: f(), (Property("it is 7", is_seven),), (Mistake(lambda: 8, "eight", "Less."),), ("a", "b"))
def loop():
    while True:
        pass
def unwritten():
    raise NotImplementedError
"""
CELLS = {
    "check(lambda: 7, 'seven')": ("holds:   it is 7\nEverything holds.\n", None),
    "check(unwritten, 'seven')": ("seven: not attempted yet. Hint 1 is folded in the cell above the exercise.\n", None),
    "check(lambda: 8, 'seven')": ("not yet: it is 7\n         it is not 7\nThis may be eight.\n", "NotYet"),
    "check(loop, 'seven')": (
        "not yet: it is 7\n         it did not come to an end in time, and was stopped; "
        "is there a loop that never\n         ends?\nMend that first, then check again.\n",
        "NotYet",
    ),
    "check(lambda: 8, 'sevn')": ("", "UnknownExercise"),
    "print(1 + 1)": ("2\n", None),
}


@pytest.mark.filterwarnings("ignore")  # the kernel's client warns of its own affairs
def test_a_notebook_shows_the_report_and_no_traceback():
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in [SETUP + "guard.LIMIT = 0.3", *CELLS]]
    )
    NotebookClient(notebook, kernel_name="python3", allow_errors=True, timeout=60).execute()
    for cell, (text, error) in zip(notebook.cells[1:], CELLS.values(), strict=True):
        streams = "".join(output.text for output in cell.outputs if output.output_type == "stream")
        errors = [output for output in cell.outputs if output.output_type == "error"]
        assert streams == text
        assert [output.ename for output in errors] == ([error] if error else [])
        assert all(output.traceback == [output.evalue] for output in errors)

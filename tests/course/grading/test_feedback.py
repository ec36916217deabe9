"""A page of feedback calls each test by what it asks, and shows no hidden test and no path of this machine."""

import sys

import numpy
from IPython.core.ultratb import VerboseTB
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from residual_course.checking.properties import close
from residual_course.commands.grading.feedback import COLOUR, named, shown

HIDDEN = "### BEGIN HIDDEN TESTS\nassert f(3) == 9\n### END HIDDEN TESTS"
WARNED = f"/tmp/ipykernel_2/316.py:14: UserWarning: {numpy.__file__}:7 {sys.prefix}"


def graded(source, name):
    """A graded cell in which a check of the package has failed, after a warning."""
    try:
        close(2.0, 1.0, "the square")
    except Exception as error:
        frames = VerboseTB(theme_name="linux").structured_traceback(type(error), error, error.__traceback__)
        failed = new_output("error", ename="Unmet", evalue=str(error), traceback=frames)
    outputs = [new_output("stream", name="stderr", text=WARNED), failed]
    return new_code_cell(source, outputs=outputs, metadata={"nbgrader": {"grade_id": name, "grade": True}})


def test_a_student_sees_what_was_asked_and_nothing_of_where_it_ran():
    head = new_markdown_cell("## Squares\n### Exercise 1 · A square (5 minutes)\nWrite it.")
    made = new_notebook(cells=[head, graded('with attempt("f"):\n    pass', "a"), graded(HIDDEN, "b")])
    page, title = '<a href="#b">Test cell</a> Grade cell: <code>a</code>', "Exercise 1 · A square (f)"
    assert named(page, made) == f'<a href="#b">{title}, on other inputs</a> {title}'
    text = COLOUR.sub("", shown(made).replace("\\u001b", "\x1b"))
    assert text.count("line 14 of this cell: UserWarning: numpy/__init__.py:7 ") == text.count("UserWarning") == 1
    assert text.count("Unmet: the square is 2 where 1 is right") == 2 and "properties.py" not in text
    assert sys.prefix not in text and "/tmp/" not in text

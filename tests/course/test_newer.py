"""A notebook that asks for what the installed package does not have is told that it is newer."""

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from residual_course import newer


@pytest.mark.parametrize(
    ("cell", "end"),
    [
        ("from residual_course.lesson import nothing", "cannot import name 'nothing' from 'residual_course.lesson'"),
        ("import residual_edu.nothing", "No module named 'residual_edu.nothing'"),
        ("raise ImportError('pip install residual_edu')", "pip install residual_edu\n"),
        ("import numpy.nothing", "No module named 'numpy.nothing'\n"),
    ],
)
def test_what_is_missing_is_told_in_a_sentence_and_of_other_packages_as_ever(monkeypatch, cell, end):
    shell = InteractiveShell()
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    newer.listen()
    with capture_output() as said:
        shell.run_cell(cell)
    ours = f"{end}: unless it is misspelled, this notebook is newer than residual_edu "
    assert said.stdout.startswith(ours) or said.stdout.endswith(end)
    assert ("restart the kernel." in said.stdout) == ("nothing" in cell and "numpy" not in cell)

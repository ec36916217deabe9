"""Tests that a learner can read: in homework they are written out below their exercise."""

from collections.abc import Iterator
from contextlib import contextmanager

from residual_course import progress
from residual_course.checking.judge import is_graded
from residual_edu.errors import InvalidInput


@contextmanager
def attempt(name: str) -> Iterator[None]:
    """Print whether the tests in the body of the ``with`` hold; they belong to the exercise ``name``.

    A test that fails raises, and so does a Python that skips every ``assert``. An untouched stub raises only where
    nbgrader runs the notebook, and elsewhere is printed to be one.
    """
    if not __debug__:
        raise InvalidInput(f"{name}: Python runs with -O or PYTHONOPTIMIZE, which skips every test; start it without")
    try:
        yield
    except NotImplementedError as error:
        if str(error) or is_graded():
            raise
        print(f"{name}: not attempted yet.")
    else:
        print(f"{name}: the tests of this cell hold. Others, on other inputs, are run when it is graded.")
        if trouble := progress.keep("exercises", name, True):
            print(trouble)

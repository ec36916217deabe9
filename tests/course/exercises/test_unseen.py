"""Answers that are in no list of mistakes: each was tried because a check could let it pass, or refuse it."""

import runpy
from pathlib import Path

import pytest

from residual_course.checking.check import find
from residual_course.checking.guard import Guard
from residual_course.checking.judge import outcomes_of
from residual_course.checking.tries import TRIES

pytestmark = pytest.mark.usefixtures("all_as_installed")


def registered():
    """Return what the files beside register, in their order."""
    TRIES.clear()
    for path in sorted((Path(__file__).parent / "unseen").glob("*.py")):
        runpy.run_path(str(path), run_name=path.stem)
    found = list(TRIES)
    TRIES.clear()
    return [pytest.param(one, id=f"{one.exercise}: {one.what}") for one in found]


@pytest.mark.parametrize("one", registered())
def test_a_wrong_answer_is_caught_and_a_right_one_accepted(one):
    exercise = find(one.exercise)
    troubles = [outcome.trouble for outcome in outcomes_of(Guard(one.answer, exercise.effort), exercise)]
    assert bool(any(troubles)) != one.is_right, troubles

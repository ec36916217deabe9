"""What tests of interruptions share, and which answers are tried under ``--all`` or by turns only."""

import signal
from pathlib import Path

import pytest

from residual_edu.course.turns import share, turn
from residual_edu.exercises.catalogue import catalogue

ROOT = Path(__file__).parents[2]
TRAINED = sorted(name for name, exercise in catalogue().items() if exercise.effort > 1)  # up to ten seconds an answer


@pytest.fixture
def interruptible():
    """Python's own answer to Ctrl-C, which a command that was started in the background ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.hookimpl(tryfirst=True)  # before the slow ones are left out
def pytest_collection_modifyitems(items):
    """Of the answers that are trained, one right and one wrong of a third of the exercises are not slow, by turns."""
    seldom = {"test_nonsense_fails_in_eight_lines", "test_a_right_answer_looks_like_no_mistake"}
    due, met = share(TRAINED, 3, turn(ROOT)), set()
    for item in items:
        if Path(__file__).parent in item.path.parents and (kind := trained(getattr(item, "callspec", None))):
            if kind[0] not in due or (item.originalname, kind) in met or item.originalname in seldom:
                item.add_marker(pytest.mark.slow)
            met.add((item.originalname, kind))


def trained(callspec):
    """Return the exercise whose check trains the answer of a test, and whether that is right; else None."""
    found = callspec.params if callspec else {}
    one = found.get("one")
    name = one.exercise if one else found.get("name")
    return (name, getattr(one, "is_right", None)) if name in TRAINED else None

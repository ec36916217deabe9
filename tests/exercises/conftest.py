"""What tests of interruptions share, and which answers are tried under ``--all`` only."""

import signal
from pathlib import Path

import pytest

from residual_edu.exercises.catalogue import catalogue


@pytest.fixture
def interruptible():
    """Python's own answer to Ctrl-C, which a command that was started in the background ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.hookimpl(tryfirst=True)  # before the slow ones are left out
def pytest_collection_modifyitems(items):
    """An answer that is trained takes up to ten seconds: of each exercise one right and one wrong are not slow."""
    seldom = {"test_nonsense_fails_in_eight_lines", "test_a_right_answer_looks_like_no_mistake"}
    met = set()
    for item in items:
        if Path(__file__).parent in item.path.parents and (kind := trained(getattr(item, "callspec", None))):
            if (item.originalname, kind) in met or item.originalname in seldom:
                item.add_marker(pytest.mark.slow)
            met.add((item.originalname, kind))


def trained(callspec):
    """Return the exercise whose check trains the answer of a test, and whether that is right; else None."""
    found = callspec.params if callspec else {}
    one = found.get("one")
    name = one.exercise if one else found.get("name")
    if name not in catalogue() or catalogue()[name].effort == 1:
        return None
    return name, getattr(one, "is_right", None)

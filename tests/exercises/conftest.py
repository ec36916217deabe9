"""What tests of interruptions share, and which answers are tried under ``--all`` only."""

import signal
from pathlib import Path

import pytest

from residual_edu.exercises.catalogue import catalogue

TRAINED = {name for name, exercise in catalogue().items() if exercise.effort > 1}  # up to ten seconds an answer


@pytest.fixture
def interruptible():
    """Python's own answer to Ctrl-C, which a command that was started in the background ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.hookimpl(tryfirst=True)  # before the slow ones are left out
def pytest_collection_modifyitems(items):
    """Answers that their check trains are slow."""
    for item in items:
        if Path(__file__).parent in item.path.parents and trained(getattr(item, "callspec", None)):
            item.add_marker(pytest.mark.slow)


def trained(callspec):
    """Return whether the check of a test's exercise trains the answer."""
    found = callspec.params if callspec else {}
    one = found.get("one")
    return (one.exercise if one else found.get("name")) in TRAINED

"""What tests of interruptions share, and which answers are tried under ``--all`` only."""

import signal
from pathlib import Path

import pytest

from residual_course.checking.catalogue import catalogue

FOLDER_OF_TESTS = Path(__file__).parent
TRAINED = [name for name, exercise in catalogue().items() if exercise.effort > 1]  # up to 30 seconds an answer


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
        if exercise_of(item) in TRAINED:
            item.add_marker(pytest.mark.slow)


def exercise_of(item):
    """Return the name of the exercise whose answers a test of this folder tries, None where it tries none."""
    found = item.callspec.params if FOLDER_OF_TESTS in item.path.parents and hasattr(item, "callspec") else {}
    return found["one"].exercise if "one" in found else found.get("name")

"""What tests of interruptions share, and which answers are tried under ``--all`` only, by turns."""

import re
import signal
from pathlib import Path

import pytest

from residual_edu.course.turns import due
from residual_edu.exercises.catalogue import catalogue

ROOT, FOLDER_OF_TESTS = Path(__file__).parents[2], Path(__file__).parent
FOLDER = ROOT / "residual_edu" / "exercises"
TRAINED = [name for name, exercise in catalogue().items() if exercise.effort > 1]  # up to 30 seconds an answer


def read_by(name):
    """Return the file of an exercise and those beside it that it imports."""
    path = FOLDER / f"{name}.py"
    return {path, *(FOLDER / f"{each}.py" for each in re.findall(r"residual_edu\.exercises\.(\w+)", path.read_text()))}


# All of them take ten minutes: two exercises at each commit, and those that were changed.
DUE = due({name: read_by(name) for name in TRAINED}, len(TRAINED) // 2, ROOT)


@pytest.fixture
def interruptible():
    """Python's own answer to Ctrl-C, which a command that was started in the background ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.hookimpl(tryfirst=True)  # before the slow ones are left out
def pytest_collection_modifyitems(config, items):
    """Answers that their check trains are slow, and those of another commit's turn are left out."""
    others = set()
    for item in items:
        name = exercise_of(item)
        if name in TRAINED:
            item.add_marker(pytest.mark.slow)
            others |= set() if name in DUE else {item}
    if others:
        items[:] = [item for item in items if item not in others]
        config.hook.pytest_deselected(items=list(others))


def exercise_of(item):
    """Return the name of the exercise whose answers a test of this folder tries, None where it tries none."""
    found = item.callspec.params if FOLDER_OF_TESTS in item.path.parents and hasattr(item, "callspec") else {}
    return found["one"].exercise if "one" in found else found.get("name")

"""How long an explorer takes from a key press to its painted picture; run last and alone, since a clock is read."""

from statistics import median

import pytest

from .lessons import TINY, some_with_explorers
from .page import LessonPage
from .tiny import sound

pytestmark = [
    pytest.mark.browser,
    pytest.mark.parametrize("lesson", [TINY, *some_with_explorers(5)], indirect=True, scope="module"),
]
QUIET, LIMIT = 60, 250  # milliseconds: the aim on a quiet machine, and what fails on one
BUSY = 4  # so many times the delay of a tiny explorer are allowed where that is more


@pytest.fixture(scope="module")
def least(lab, chromium):
    """The delay of an explorer that only draws a sine, on this machine and today."""
    page = LessonPage(chromium, lab, "least", sound())
    page.run_all()
    took, _ = slowest(page.explorers()[0])
    page.close()
    return took


def slowest(explorer):
    """The median delay of an explorer's slowest control, of about twenty presses in all, and what it is called."""
    moves = explorer.by_keyboard()
    return max((median(explorer.delays(move, times=max(4, -(-10 // len(moves))))), move.what) for move in moves)


def test_its_explorers_are_in_time(least, lesson, report):
    for number, explorer in enumerate(lesson.explorers(), 1):
        took, what = slowest(explorer)
        bar = f"the {QUIET} ms of a quiet machine {'met' if took < QUIET else 'not met'}"
        report.append(f"{lesson.name}, explorer {number}: {took:.0f} ms, slowest {what}; {bar}")
        assert took <= max(LIMIT, BUSY * least), report[-1]

"""What the browser test must not miss: a cell that raises, a request that leaves, a slider that is dead or slow."""

from statistics import median

import pytest

from . import moving
from .tiny import broken

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,  # what it tests are the tests
    pytest.mark.parametrize("lesson", [("broken", broken)], ids=["broken"], indirect=True, scope="module"),
]


def test_a_cell_that_raises_is_seen(lesson):
    assert lesson.errors() == ["ZeroDivisionError: division by zero"]


def test_a_request_that_leaves_is_seen(lesson):
    assert "a request left this machine: http://away.invalid/pixel.png" in lesson.faults


def test_a_socket_that_leaves_is_seen(lesson):
    lesson.page.evaluate("() => { new WebSocket('ws://away.invalid/socket'); }")
    lesson.page.wait_for_timeout(100)
    assert "a request left this machine: http://away.invalid/socket" in lesson.faults


@pytest.mark.parametrize("way", ["by_keyboard", "by_mouse"])
def test_a_slider_that_moves_nothing_is_seen(lesson, monkeypatch, way):
    monkeypatch.setattr(moving, "PATIENCE", 1_000)
    dead, _ = lesson.explorers()
    (move,) = getattr(dead, way)()
    with pytest.raises(AssertionError, match="^the slider 'dead' moves nothing"):
        dead.delays(move, times=1)


def test_a_slow_slider_is_over_the_limit(lesson):
    _, slow = lesson.explorers()
    assert median(slow.delays(slow.by_keyboard()[0], times=2)) > 250


def test_an_error_that_is_only_logged_is_seen(lesson):
    lesson.page.evaluate("() => console.error('Could not create a view')")
    assert "error in the console: Could not create a view" in lesson.faults


def test_an_error_of_the_page_is_seen(lesson):
    lesson.page.evaluate("() => setTimeout(() => { throw new Error('lost') })")
    lesson.page.wait_for_timeout(100)
    assert "error in the page: lost" in lesson.faults

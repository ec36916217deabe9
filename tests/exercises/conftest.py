"""What tests of interruptions share."""

import signal

import pytest


@pytest.fixture
def interruptible():
    """Python's own answer to Ctrl-C, which a command that was started in the background ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)

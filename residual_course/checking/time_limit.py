"""Stop a call that does not return, with the system's alarm.

The alarm rings in the main thread, between two instructions of Python: a loop, a wait and a sleep end; one long call
into C and a loop around a bare ``except:`` do not. Without an alarm (on Windows, in another thread) nothing is
stopped, and a message says how to do it by hand.
"""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

Result = TypeVar("Result")
TICK = 0.1  # seconds from one look at the clock to the next
PATIENCE = 3  # seconds of waiting that count as one of work, so that a busy machine stops nobody
BY_HAND = (
    "This check has run for {:.0f} seconds. If your answer has a loop that never ends, "
    "interrupt it with the kernel's stop button (the square above the notebook)."
)


class OutOfTime(BaseException):
    """A call took longer than it was given; no ``Exception``, so that ``except Exception`` does not swallow it."""


class Stopwatch:
    """Counts the seconds that this process has worked since it was made, or a third of those that have passed."""

    def __init__(self) -> None:
        self.work, self.start = time.process_time(), time.monotonic()

    def seconds(self) -> float:
        """Return the larger of the two."""
        return max(time.process_time() - self.work, (time.monotonic() - self.start) / PATIENCE)


def limited(seconds: float, function: Callable[[], Result]) -> Result:
    """Return ``function()``, or raise ``OutOfTime`` once it has worked for ``seconds``; imports do not count."""
    in_main = threading.current_thread() is threading.main_thread()
    with alarm(seconds) if in_main and hasattr(signal, "setitimer") else message(seconds):
        return function()


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise ``OutOfTime`` in the body, once; somebody else's handler and timer are put back at the end."""
    watch, here, seen, used = Stopwatch(), sys._getframe(), 0.0, 0.0

    def ring(_: int, frame: FrameType | None) -> None:
        nonlocal seen, used
        last, seen = seen, watch.seconds()
        used += 0.0 if importing(frame, here) else seen - last
        if used >= seconds:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise OutOfTime

    start, (left, interval) = time.monotonic(), signal.getitimer(signal.ITIMER_REAL)
    handler = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)
        if left:  # the other timer goes on, less the time that has passed
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - start), TICK), interval)


def importing(frame: FrameType | None, end: FrameType) -> bool:
    """Whether an import is under way, which must not be stopped halfway, and is not the answer's own work."""
    while frame and frame is not end:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


@contextmanager
def message(seconds: float) -> Iterator[None]:
    """Print once how to stop the body by hand, if it takes longer than it is given."""
    wait = seconds * PATIENCE
    timer = threading.Timer(wait, print, [BY_HAND.format(wait)], {"file": sys.__stdout__, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()

"""Stop a call that does not return.

One alarm would not be enough: a bare ``except:`` in a learner's endless loop swallows what is raised inside it, and an
interruption that comes late must not hit the next cell.

In the main thread of Linux and macOS the system's alarm interrupts the call, also while it sleeps or waits. Elsewhere a
second thread makes the interpreter raise in this one, which ends a loop in Python but not a wait inside C.
"""

import ctypes
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, TypeVar

Result = TypeVar("Result")
TICK = 0.1  # seconds from one look at the clock to the next
PATIENCE = 3  # seconds of waiting that count as one of work, so that a busy machine stops nobody


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
    """Return ``function()``, or raise ``OutOfTime`` once a ``Stopwatch`` shows ``seconds``."""
    in_main = threading.current_thread() is threading.main_thread()
    return (_by_alarm if in_main and hasattr(signal, "setitimer") else _by_watcher)(seconds, function)


# An interruption can land anywhere below, so each inner `finally` is the one call into C that ends them.


def _by_alarm(seconds: float, function: Callable[[], Result]) -> Result:
    start, (left, interval) = time.monotonic(), signal.getitimer(signal.ITIMER_REAL)
    tracer, alarm = sys.gettrace(), _Alarm(seconds, sys._getframe())
    handler = signal.signal(signal.SIGALRM, alarm.ring)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
            return function()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        sys.settrace(tracer)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)
        if left:  # someone else's alarm goes on, less the time that has passed
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - start), TICK), interval)


class _Alarm:
    """Raises in the running frame; from the second time on, on the next line of each frame below ``end`` as well.

    So a loop around a bare ``except:`` ends too: the line after the ``except:`` stands outside its ``try``.
    """

    def __init__(self, seconds: float, end: FrameType) -> None:
        self.seconds, self.end, self.watch, self.rung = seconds, end, Stopwatch(), False

    def ring(self, _: int, frame: FrameType | None) -> None:
        if self.watch.seconds() < self.seconds:
            return
        if self.rung:
            while frame and frame is not self.end:
                frame.f_trace, frame = _stop, frame.f_back
            sys.settrace(lambda *_: None)
        self.rung = True
        raise OutOfTime


def _stop(frame: FrameType, event: str, argument: object) -> Any:
    if event == "line":
        raise OutOfTime
    return _stop


def _by_watcher(seconds: float, function: Callable[[], Result]) -> Result:
    running, here = threading.Lock(), threading.get_ident()
    running.acquire()
    watcher = threading.Thread(target=_watch, args=(seconds, here, running), daemon=True)
    watcher.start()
    try:
        try:
            return function()
        finally:
            running.release()
    finally:
        with suppress(OutOfTime):  # the last one may be on its way, and comes while we wait
            watcher.join()


def _watch(seconds: float, thread: int, running: Any) -> None:
    watch = Stopwatch()
    while not running.acquire(timeout=TICK):
        if watch.seconds() >= seconds:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(OutOfTime))

"""Stop a call that does not return.

In the main thread of Linux and macOS the system's alarm interrupts it, also while it sleeps or waits. Elsewhere a
second thread asks the interpreter to raise in this one, which a loop in Python hears and a wait inside C does not.
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
AGAIN = 0.2  # seconds until the next interruption, for a call that swallows one


class OutOfTime(BaseException):
    """A call took longer than it was given; no ``Exception``, so that ``except Exception`` does not swallow it."""


def limited(seconds: float, function: Callable[[], Result]) -> Result:
    """Return ``function()``, or raise ``OutOfTime`` once ``seconds`` are over."""
    in_main = threading.current_thread() is threading.main_thread()
    return (_by_alarm if in_main and hasattr(signal, "setitimer") else _by_watcher)(seconds, function)


# An interruption can land on any line below, so each `finally` begins with the one call into C that ends them.


def _by_alarm(seconds: float, function: Callable[[], Result]) -> Result:
    start, (left, interval) = time.monotonic(), signal.getitimer(signal.ITIMER_REAL)
    tracer, alarm = sys.gettrace(), _Alarm(sys._getframe())
    handler = signal.signal(signal.SIGALRM, alarm.ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
        return function()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.settrace(tracer)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)
        if left:  # someone else's alarm goes on, less the time that has passed
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - start), AGAIN), interval)


class _Alarm:
    """Raises in the running frame; from the second time on, on the next line of each frame below ``end`` as well.

    So a loop around a bare ``except:`` ends too: the line after the ``except:`` stands outside its ``try``.
    """

    def __init__(self, end: FrameType) -> None:
        self.end, self.rung = end, False

    def ring(self, _: int, frame: FrameType | None) -> None:
        while self.rung and frame and frame is not self.end:
            frame.f_trace, frame = _stop, frame.f_back
        if self.rung:
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
        return function()
    finally:
        running.release()
        with suppress(OutOfTime):  # the last one may be on its way
            watcher.join()
        _raise_in(here, None)


def _watch(seconds: float, thread: int, running: Any) -> None:
    while not running.acquire(timeout=seconds):
        _raise_in(thread, ctypes.py_object(OutOfTime))
        seconds = AGAIN


def _raise_in(thread: int, error: Any) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)

"""Call a learner's code so that nothing it does reaches the rest of the session."""

import io
import re
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

from residual_course.checking.known_state import known_state
from residual_course.checking.time_limit import OutOfTime, Stopwatch, limited
from residual_course.checking.unchanged import SETTINGS, settings_stay
from residual_course.checking.unmet import Broken, Unmet

LIMIT = 4.0  # seconds for one call, as a Stopwatch counts them
BUDGET = 12.0  # seconds for all calls of one check
ADDRESS = re.compile("0x[0-9a-f]+", re.IGNORECASE)


@dataclass(frozen=True)
class Outcome:
    """The result of a call: its value, or the error that it raised."""

    value: Any = None
    error: BaseException | None = None

    @property
    def timed_out(self) -> bool:
        """Whether the call was stopped, or not made because an earlier one had been."""
        return isinstance(self.error, OutOfTime)

    @property
    def unwritten(self) -> bool:
        """Whether a stub was reached: ``NotImplementedError`` without a message; torch's own always have one."""
        return isinstance(self.error, NotImplementedError) and not _text(self.error)

    @property
    def mechanical(self) -> bool:
        """Whether the code raised, returned nothing or changed its input, so that its idea cannot be judged yet."""
        return self.error is not None and (isinstance(self.error, Broken) or not isinstance(self.error, Unmet))

    @property
    def trouble(self) -> str:
        """What went wrong, in words that are the same on each run; empty if nothing did."""
        if self.error is None:
            return ""
        if self.timed_out:
            return "it did not come to an end in time, and was stopped; is there a loop that never ends?"
        text = ADDRESS.sub("0x...", _text(self.error)).strip()
        if isinstance(self.error, Unmet):
            return text or "it does not"
        first = text.partition("\n")[0][:200]
        return f"it raised {type(self.error).__name__}" + (f": {first}" if first else "")


class Guard:
    """Calls functions on one answer; after the first time-out, not again. ``effort`` multiplies the time they get.

    An error, an exit and an endless loop become an ``Outcome``; what the answer prints is kept in ``printed``. Each
    call runs in the ``known_state``, and fails if it leaves another gradient mode, default dtype or default device.
    A ``KeyboardInterrupt`` passes: it is the learner's own.
    """

    def __init__(self, answer: Any, effort: int = 1) -> None:
        self.answer, self.effort, self.left = answer, effort, BUDGET * effort
        self.timed_out, self.printed = False, Notepad()

    def call(self, function: Callable[[Any], Any]) -> Outcome:
        """Return the ``Outcome`` of ``function(answer)``."""
        if self.timed_out:
            return Outcome(error=OutOfTime())
        watch = Stopwatch()
        try:
            with known_state(), redirect_stdout(self.printed), redirect_stderr(self.printed), settings_stay(SETTINGS):
                return Outcome(limited(min(LIMIT * self.effort, self.left), lambda: function(self.answer)))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # sys.exit and the time-out are no Exceptions
            self.timed_out = isinstance(error, OutOfTime)
            return Outcome(error=error)
        finally:
            self.left = max(self.left - watch.seconds(), 0.1)


class Notepad(io.TextIOBase):
    """A text stream that keeps the first ``room`` characters and counts the lines."""

    def __init__(self, room: int = 2000) -> None:
        self.room, self.text, self.lines = room, "", 0

    def write(self, text: str) -> int:
        """Keep as many characters as there is room for; return the length of ``text``."""
        self.text += text[: self.room - len(self.text)]
        self.lines += text.count("\n")
        return len(text)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a learner's own __str__ may raise
        return ""

"""Call a learner's code so that nothing it does reaches the rest of the session."""

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from residual_edu.exercises.time_limit import OutOfTime, Stopwatch, limited
from residual_edu.exercises.unmet import Broken, Unmet

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
    call starts with the same seed, float32 and gradients switched on; afterwards torch's random numbers, default
    dtype, gradient mode, threads and the warnings' filters are as they were. A ``KeyboardInterrupt`` passes: it is
    the learner's own.
    """

    def __init__(self, answer: Any, effort: int = 1) -> None:
        warm_up()
        self.answer, self.effort, self.left = answer, effort, BUDGET * effort
        self.timed_out, self.printed = False, Notepad()

    def call(self, function: Callable[[Any], Any]) -> Outcome:
        """Return the ``Outcome`` of ``function(answer)``."""
        if self.timed_out:
            return Outcome(error=OutOfTime())
        watch = Stopwatch()
        try:
            with known_state(), redirect_stdout(self.printed), redirect_stderr(self.printed):
                return Outcome(limited(min(LIMIT * self.effort, self.left), lambda: function(self.answer)))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # sys.exit and the time-out are no Exceptions
            self.timed_out = isinstance(error, OutOfTime)
            return Outcome(error=error)
        finally:
            self.left = max(self.left - watch.seconds(), 0.1)


@cache
def warm_up() -> None:
    """Compute a gradient once, outside of any time limit, which could stop torch's first import halfway."""
    x = torch.ones(1, requires_grad=True)
    with torch.enable_grad():
        torch.autograd.grad(2 * x, x, torch.ones(1))


@contextmanager
def known_state() -> Iterator[None]:
    """Set a fixed seed, float32, gradients on and no warnings, and restore the previous state at the end."""
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    with torch.random.fork_rng(devices=[]), torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.default_generator.manual_seed(0)
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_num_threads(threads)


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

"""Recognise a known mistake: an answer that does what the mistake does."""

from numbers import Real
from typing import Any

from torch import Tensor

from residual_edu.exercises.exercise import Exercise, Mistake
from residual_edu.exercises.guard import Guard, Outcome
from residual_edu.exercises.properties import close
from residual_edu.exercises.unmet import Unmet


def known_mistake(exercise: Exercise, seen: Outcome) -> Mistake | None:
    """Return the known mistake whose outcome is the one ``seen``, if there is one."""
    return next((mistake for mistake in exercise.mistakes if alike(outcome(exercise, mistake.wrong), seen)), None)


def outcome(exercise: Exercise, answer: Any) -> Outcome:
    """Return the outcome of observing ``answer``."""
    return Guard(answer, exercise.effort).call(exercise.observe)


def alike(a: Outcome, b: Outcome) -> bool:
    """Whether two outcomes have the same value and the same trouble; a call that ran out of time is like no other."""
    return not (a.timed_out or b.timed_out) and a.trouble == b.trouble and same(a.value, b.value)


def same(a: Any, b: Any) -> bool:
    """Whether two values have the same shapes, dtypes and texts, and close numbers; NaN is equal to NaN."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.dtype == b.dtype and _close(a, b)
    if isinstance(a, Real) and isinstance(b, Real):
        return _close(a, b)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and (a == b) is True


def _close(a: Any, b: Any) -> bool:
    try:
        close(a, b)
    except Unmet:
        return False
    return True

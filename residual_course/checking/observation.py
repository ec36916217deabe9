"""Recognise a known mistake: the answer does what this mistake does, and no right answer and no other mistake does."""

from collections.abc import Iterator
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake
from residual_course.checking.guard import Guard, Outcome
from residual_course.checking.properties import close
from residual_course.checking.unmet import Unmet

SEEN: dict[tuple[Exercise, int], Outcome] = {}  # what the reference (-1) and each mistake of an exercise do
ENOUGH = 2  # different numbers; a single one can be equal by accident


def diagnosis(exercise: Exercise, seen: Outcome, failed: frozenset[str]) -> tuple[Mistake, bool] | None:
    """Return the known mistake that an answer makes, and whether that is sure; None where it does what is right.

    No two mistakes of an exercise do the same (a test), so that the first which fits is the only one.

    Args:
        exercise: what was answered.
        seen: the answer's outcome under ``observe``.
        failed: the properties that do not hold for it, of those that train nothing. The mistake is sure where these are
            its own, too.
    """
    if alike(outcome(exercise, -1), seen):
        return None
    found = (mistake for i, mistake in enumerate(exercise.mistakes) if alike(outcome(exercise, i), seen))
    if (mistake := next(found, None)) is None:
        return None
    return mistake, len(set(leaves(seen.value))) >= ENOUGH and failures(exercise, mistake.wrong) == failed


def outcome(exercise: Exercise, index: int) -> Outcome:
    """Return what a mistake does under ``observe``, or the reference (-1); kept, unless the reference fails."""
    key = exercise, index
    if key not in SEEN:
        answer = exercise.reference if index < 0 else exercise.mistakes[index].wrong
        found = Guard(answer, exercise.effort).call(exercise.observe)
        if found.timed_out or (index < 0 and found.trouble):
            return found
        SEEN[key] = found
    return SEEN[key]


def failures(exercise: Exercise, answer: Any) -> frozenset[str]:
    """Return the properties that do not hold for an answer, of those that train nothing."""
    guard = Guard(answer, exercise.effort)
    return frozenset(prop.holds for prop in exercise.properties if not prop.trains and guard.call(prop.test).trouble)


def leaves(value: Any) -> Iterator[Any]:
    """Yield the numbers and texts of a value, numbers rounded, so that two that are close are one."""
    if isinstance(value, Tensor):
        yield from leaves(value.flatten().tolist()[:1000])
    elif isinstance(value, list | tuple):
        for one in value:
            yield from leaves(one)
    elif isinstance(value, dict):
        yield from leaves(list(value.values()))
    else:
        yield f"{value:.4g}" if isinstance(value, float) else str(value)


def alike(a: Outcome, b: Outcome) -> bool:
    """Whether two outcomes have the same value and the same trouble; a call that ran out of time is like no other."""
    return not (a.timed_out or b.timed_out) and a.trouble == b.trouble and same(a.value, b.value)


def same(a: Any, b: Any) -> bool:
    """Whether two values have the same shapes and texts, and close numbers; NaN is equal to NaN."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return (a.dtype == torch.bool) == (b.dtype == torch.bool) and _close(a, b)
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

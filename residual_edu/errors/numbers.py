"""Checks of numbers, choices and texts."""

from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Integral

from residual_edu.errors.invalid_input import InvalidInput, is_number, shown


def check_size(name: str, value: int, least: int = 1) -> None:
    """Raise ``InvalidInput`` unless ``value`` is a whole number of at least ``least``, Python's or NumPy's."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidInput(f"{name} must be a whole number, got {shown(value)}")
    if value < least:
        raise InvalidInput(f"{name} must be at least {least}, got {value}")


def check_equal(name: str, value: int, expected: int, why: str) -> None:
    """Raise ``InvalidInput``, with the reason, unless ``value`` is ``expected``."""
    if value != expected:
        raise InvalidInput(f"{name} must be {expected}, {why}, got {value}")


def check_below(name: str, value: int | float, limit: int | float) -> None:
    """Raise ``InvalidInput`` unless ``value`` is below ``limit``."""
    if value >= limit:
        raise InvalidInput(f"{name} must be below {limit}, got {value}")


def check_positive(name: str, value: float) -> None:
    """Raise ``InvalidInput`` unless ``value`` is a finite number above 0."""
    if not (is_number(value) and 0 < value < float("inf")):
        raise InvalidInput(f"{name} must be a finite number above 0, got {shown(value)}")


def check_not_negative(name: str, value: float) -> None:
    """Raise ``InvalidInput`` unless ``value`` is a finite number of at least 0."""
    if not (is_number(value) and 0 <= value < float("inf")):
        raise InvalidInput(f"{name} must be a finite number, at least 0, got {shown(value)}")


def check_rate(name: str, value: float) -> None:
    """Raise ``InvalidInput`` unless ``value`` lies in [0, 1)."""
    if not is_number(value):
        raise InvalidInput(f"{name} must be a number in [0, 1), got {shown(value)}")
    if not 0 <= value < 1:
        why = "; a rate of 1 would drop everything" if value == 1 else ""
        raise InvalidInput(f"{name} must lie in [0, 1), got {shown(value)}{why}")


def check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """Raise ``InvalidInput``, with the nearest choice, unless ``value`` is one of ``choices``."""
    allowed = list(choices)
    if not isinstance(value, str) or value not in allowed:
        near = get_close_matches(value, allowed, n=1) if isinstance(value, str) else []
        mend = f"; did you mean {near[0]!r}?" if near else ""
        raise InvalidInput(f"{name} must be one of {', '.join(map(repr, allowed))}, got {shown(value)}{mend}")


def check_text(name: str, value: str) -> None:
    """Raise ``InvalidInput`` unless ``value`` says something."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"{name} must be a sentence for the reader, got {shown(value)}")

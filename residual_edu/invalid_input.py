"""The one error of this library, and how a message shows a value. No torch is imported here."""

from numbers import Real
from typing import Any, TypeGuard


class InvalidInput(ValueError, AssertionError):
    """An argument that cannot be used: a ``ValueError``, and an ``AssertionError`` as the origins promise it."""


def is_number(value: Any) -> TypeGuard[float]:
    """Whether ``value`` is a real number, Python's or NumPy's, and no truth value."""
    return type(value) is float or (isinstance(value, Real) and not isinstance(value, bool))


def shown(value: Any) -> str:
    """Return ``value`` as Python writes it, or its type where that would be long."""
    text = repr(value)
    return text if len(text) <= 40 and "\n" not in text else f"a {type(value).__name__}"

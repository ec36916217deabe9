"""The one error that the library raises for input that it cannot use."""

from numbers import Real
from typing import Any, TypeGuard


class InvalidInput(ValueError, AssertionError):
    """An argument that cannot be used; the message names it, its value, and the mend.

    It is a ``ValueError``, as Python's users expect, and an ``AssertionError``, as the pages that this library
    grew from promise.
    """


def is_number(value: Any) -> TypeGuard[float]:
    """Whether ``value`` is a real number, Python's or NumPy's, and no truth value."""
    return isinstance(value, Real) and not isinstance(value, bool)


def shown(value: Any) -> str:
    """Write ``value`` as Python does, or name its type where that would be long."""
    text = repr(value)
    return text if len(text) <= 40 and "\n" not in text else f"a {type(value).__name__}"

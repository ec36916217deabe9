"""How a message shows a value, until the course's own messages do without."""

from numbers import Real
from typing import Any, TypeGuard

from residual_edu.errors import InvalidInput as InvalidInput


def is_number(value: Any) -> TypeGuard[float]:
    """Whether ``value`` is a real number, Python's or NumPy's, and no truth value."""
    return type(value) is float or (isinstance(value, Real) and not isinstance(value, bool))


def shown(value: Any) -> str:
    """Return ``value`` as Python writes it, or its type where that would be long."""
    text = repr(value)
    return text if len(text) <= 40 and "\n" not in text else f"a {type(value).__name__}"

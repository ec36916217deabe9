"""What the library says when it is handed something it cannot use.

Every check of an argument stands here, so that every message is phrased once: the parameter, what it must be,
what came, and how to mend it.
"""

from collections.abc import Iterable

from torch import Tensor


class InvalidInput(ValueError, AssertionError):
    """An argument that cannot be used; the message names it, its value, and the mend.

    It is a ``ValueError``, as Python's users expect, and an ``AssertionError``, as the pages that this library
    grew from promise.
    """


def check_size(name: str, value: int) -> None:
    """Raise ``InvalidInput`` unless ``value`` is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{name} must be a whole number, got {value!r}")
    if value < 1:
        raise InvalidInput(f"{name} must be at least 1, got {value}")


def check_positive(name: str, value: float) -> None:
    """Raise ``InvalidInput`` unless ``value`` is a finite number above 0."""
    if not 0 < value < float("inf"):
        raise InvalidInput(f"{name} must be a finite number above 0, got {value!r}")


def check_rate(name: str, value: float) -> None:
    """Raise ``InvalidInput`` unless ``value`` lies in [0, 1)."""
    if not 0 <= value < 1:
        raise InvalidInput(f"{name} must lie in [0, 1), got {value!r}; a rate of 1 would drop everything")


def check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """Raise ``InvalidInput`` unless ``value`` is one of ``choices``."""
    if value not in (allowed := list(choices)):
        raise InvalidInput(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def check_floating(name: str, x: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``x`` holds floating-point numbers."""
    if not x.is_floating_point():
        raise InvalidInput(f"{name} must be floating point, got {x.dtype}; convert it with {name}.float()")


def check_width(name: str, x: Tensor, width: int) -> None:
    """Raise ``InvalidInput`` unless the last axis of ``x`` is ``width`` long."""
    if x.ndim == 0:
        raise InvalidInput(f"{name} must have a feature axis of {width}, got a single number (no axes)")
    if x.shape[-1] != width:
        raise InvalidInput(f"{name} must have {width} features on its last axis, got shape {tuple(x.shape)}")

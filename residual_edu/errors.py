"""The one error of this library, and the checks that several modules share.

Refused is what would otherwise be silently wrong: a tensor that would broadcast, a size
or rate with which another function would be computed. What torch refuses is torch's.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from math import isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor

NUMBER = (int, float, np.integer, np.floating)


class InvalidInput(ValueError, AssertionError):
    """An argument that cannot be used; an ``AssertionError`` too, as in the origins."""


def check_size(name: str, value: Any, least: int = 1) -> None:
    """Raise ``InvalidInput`` unless ``value`` is a whole number, at least ``least``."""
    if not (isinstance(value, (int, np.integer, torch.SymInt)) and value >= least):
        wanted = f"a whole number, at least {least}"
        raise InvalidInput(f"{name} must be {wanted}, got {value!r}")


def check_positive(name: str, value: Any) -> None:
    """Raise ``InvalidInput`` unless ``value`` is a finite number above 0."""
    if not (isinstance(value, NUMBER) and isfinite(value) and value > 0):
        raise InvalidInput(f"{name} must be a finite number above 0, got {value!r}")


def check_rate(name: str, value: Any) -> None:
    """Raise ``InvalidInput`` unless ``value`` is a number in [0, 1)."""
    if not (isinstance(value, NUMBER) and 0 <= value < 1):
        raise InvalidInput(f"{name} must be a number in [0, 1), got {value!r}")


def check_choice(name: str, value: Any, choices: Iterable[Any]) -> None:
    """Raise ``InvalidInput`` unless ``value`` is one of ``choices``."""
    if value not in (allowed := list(choices)):
        words = ", ".join(map(repr, allowed))
        near = get_close_matches(str(value), map(str, allowed), n=1)
        mend = f"; did you mean {near[0]!r}?" if near else ""
        raise InvalidInput(f"{name} must be one of {words}, got {value!r}{mend}")


def check_shape(name: str, x: Tensor, *shape: int | str) -> None:
    """Raise ``InvalidInput`` unless ``x`` is floating point of ``shape``.

    Numbers are lengths, names any length, and a first ``"..."`` any number of axes.
    """
    axes = shape[1:] if shape[0] == "..." else shape
    found = x.shape[max(x.ndim - len(axes), 0) :] if shape[0] == "..." else x.shape
    fits = x.is_floating_point() and len(found) == len(axes)
    for length, room in zip(axes, found, strict=False):
        fits = fits and (isinstance(length, str) or length == room)
    if not fits:
        wanted = f"floating point of shape ({', '.join(map(str, shape))})"
        raise InvalidInput(f"{name} must be {wanted}, got {x.dtype} {tuple(x.shape)}")


def check_same_shape(name: str, x: Tensor, other: str, y: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``x`` has ``y``'s shape: a sum would broadcast."""
    if x.shape != y.shape:
        wanted = f"the shape of {other}, {tuple(y.shape)}"
        raise InvalidInput(f"{name} must have {wanted}, got {tuple(x.shape)}")

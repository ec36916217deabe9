"""The check of one array, list or number against a line such as ``seeds steps, nan``, which ``takes.py`` explains."""

import re
from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from residual_edu.invalid_input import InvalidInput, shown

TOKEN = re.compile(r"(\*?)([a-z_]+|\d+)(\??)(?:([<>])=(\d+))?(?:\+(\d+))?")
RANGE = re.compile(r"(-?[\d.]*\d)?\.\.(-?[\d.]*\d)?")  # -1..3, 1.. or ..3


class Known(NamedTuple):
    """How long an axis is, or the axes that a star stands for, or the names in a mapping; and who says so."""

    length: Any
    who: str


Bound = MutableMapping[str, Known]  # the axes that are known so far, by name


class Axis(NamedTuple):
    """One axis of a line: ``seeds?``, ``*any``, ``blocks+1``, ``rows<=4``, ``3``."""

    star: bool
    name: str
    optional: bool
    bound: str  # "<", ">" or nothing
    limit: int
    more: int

    def allows(self, length: int) -> bool:
        """Whether ``length`` is within the bound that the line gives, and that of a number itself."""
        inside = length <= self.limit if self.bound == "<" else length >= self.limit
        return inside and (not self.name.isdigit() or length == int(self.name))


def axes_of(line: str) -> list[Axis]:
    """Return the axes in the first part of ``line``."""
    tokens = [TOKEN.fullmatch(word) for word in line.split(",")[0].split()]
    if None in tokens:
        raise SyntaxError(f"not a line of axes: {line!r}")
    return [
        Axis(bool(star), name, bool(optional), bound or "", int(limit or 0), int(more or 0))
        for star, name, optional, bound, limit, more in (token.groups() for token in tokens if token)
    ]


def check_array(who: str, value: Any, line: str, bound: Bound) -> None:
    """Raise ``InvalidInput`` unless ``value`` has the axes and the numbers that ``line`` says; bind its axes."""
    options = [part.strip() for part in line.split(",")[1:]]
    array = None if "words" in options else numbers(who, value)
    shape = (words(who, value),) if array is None else array.shape
    if "or none" in options and shape == (0,):
        return
    check_axes(who, shape, line, bound)
    if array is not None and "nan" not in options:
        check_finite(who, array)
    if "whole" in options and array is not None and array.dtype.kind not in "iu":
        raise InvalidInput(f"{who} must be whole numbers, got {shown(value)}")
    if "above 0" in options and array is not None and not (array > 0).all():
        raise InvalidInput(f"{who} must be above 0, where its axis is logarithmic, got {array.min()}")
    for low, high in (found.groups() for part in options if (found := RANGE.fullmatch(part))):
        check_range(who, array, float(low or "-inf"), float(high or "inf"))


def numbers(who: str, value: Any) -> np.ndarray:
    """Return ``value`` as an array of real numbers."""
    try:
        array = np.asarray(value)
    except Exception as error:  # noqa: BLE001 - what NumPy and torch raise is of many kinds
        raise InvalidInput(f"{who} must be an array of numbers, got {shown(value)}: {error}") from None
    if array.dtype.kind not in "biuf":
        raise InvalidInput(f"{who} must be an array of numbers, got {shown(value)}")
    return array


def words(who: str, value: Any) -> int:
    """Return how many ``value`` holds."""
    unlike = isinstance(value, str | Mapping) or not hasattr(value, "__len__")
    if unlike or getattr(value, "ndim", 1) != 1:
        raise InvalidInput(f"{who} must be a list, got {shown(value)}")
    return len(value)


def check_axes(who: str, shape: Sequence[int], line: str, bound: Bound) -> None:
    """Raise ``InvalidInput`` unless ``shape`` is what ``line`` says, no axis of it empty."""
    axes = axes_of(line)
    if len(shape) < len(axes):
        axes = [axis for axis in axes if not axis.optional]
    first = axes[0] if axes else None
    if first is not None and first.star:
        check_length(who, first, tuple(shape), shape, bound)
    elif len(shape) != len(axes) or 0 in shape:
        empty = "; an axis is empty" if 0 in shape else ""
        raise InvalidInput(f"{who} must {written(axes_of(line))}, got {tuple(shape)}{empty}")
    else:
        for axis, length in zip(axes, shape, strict=True):
            check_length(who, axis, length, shape, bound)


def check_length(who: str, axis: Axis, length: Any, shape: Sequence[int], bound: Bound) -> None:
    """Raise ``InvalidInput`` unless ``length`` is that of ``axis``, which is bound to it if it is new."""
    if not axis.star and not axis.allows(length):
        raise InvalidInput(f"{who} must have {wanted(axis)} along its axis {axis.name}, got shape {tuple(shape)}")
    if axis.name.isdigit():
        return
    own = length if axis.star else length - axis.more
    known = bound.setdefault(axis.name, Known(own, f"{who} has"))
    if axis.star and own != known.length:
        raise InvalidInput(f"{who} must have the shape that {known.who}, {known.length}, got {own}")
    if not axis.star and own != count(known.length):
        more = f" and {axis.more} more" if axis.more else ""
        raise InvalidInput(
            f"{who} must have as many {axis.name} as {known.who}, {count(known.length)}{more}, got shape {tuple(shape)}"
        )


def wanted(axis: Axis) -> str:
    """Return the bound of an axis in words."""
    return axis.name if axis.name.isdigit() else f"at {'most' if axis.bound == '<' else 'least'} {axis.limit}"


def count(length: int | list[Any]) -> int:
    """Return how many there are of what is bound: a length itself, or the names of a mapping."""
    return length if isinstance(length, int) else len(length)


def written(axes: Sequence[Axis]) -> str:
    """Return the axes of a line as a message shows them."""
    names = [axis.name + (f"+{axis.more}" if axis.more else "") + " or none" * axis.optional for axis in axes]
    return f"have shape ({', '.join(names)})" if names else "be a single number, of shape ()"


def check_finite(who: str, array: np.ndarray) -> None:
    """Raise ``InvalidInput`` where ``array`` holds NaN or infinity, with its first place."""
    if not np.isfinite(array).all():
        place = tuple(map(int, np.argwhere(~np.isfinite(array))[0]))
        at = f" at {list(place)}" if place else ""
        raise InvalidInput(f"{who} must hold finite numbers, which alone can be drawn, got {array[place]}{at}")


def check_range(who: str, array: Any, low: float, high: float) -> None:
    """Raise ``InvalidInput`` where a number lies outside of ``low`` to ``high``; NaN is left to others."""
    outside = array[(array < low) | (array > high)]
    if outside.size:
        ends = (f"at least {low:g}" if low > -np.inf else "", f"at most {high:g}" if high < np.inf else "")
        raise InvalidInput(f"{who} must be {' and '.join(filter(None, ends))}, got {outside.flat[0]}")


def check_positions(who: str, value: Any, line: str, bound: Bound, several: bool) -> None:
    """Raise ``InvalidInput`` unless ``value`` are whole positions along the axes of a line "in rows columns".

    With ``several`` they are positions along its one axis, or none.
    """
    names, array = line.removeprefix("in ").split(), numbers(who, value)
    fits = array.ndim == 1 if several else array.shape == (() if len(names) == 1 else (len(names),))
    if not fits or (array.size and array.dtype.kind not in "iu"):
        raise InvalidInput(f"{who} must be whole numbers, positions along {' and '.join(names)}, got {shown(value)}")
    for name, places in zip(names, np.atleast_2d(array.T).T if len(names) > 1 else [array], strict=True):
        length = bound[name].length
        if np.any(places < 0) or np.any(places >= length):
            raise InvalidInput(f"{who} must lie between 0 and {length - 1}, the {name}, got {shown(value)}")


def check_names(who: str, value: Collection[Any], line: str, bound: Bound) -> None:
    """Raise ``InvalidInput`` unless the names or the number of entries in ``value`` are as ``line`` says."""
    any_number, line = line.startswith("any"), line.removeprefix("any").strip()
    if len(value) == 0 and not any_number:
        raise InvalidInput(f"{who} must have at least 1 entry, got none")
    for axis in axes_of(line if line[:1] not in ("<", ">") else f"entries{line}"):
        if not axis.allows(len(value)):
            raise InvalidInput(f"{who} must have {wanted(axis)} entries, got {len(value)}")
        if axis.name.isdigit() or axis.name == "entries":
            continue
        found = list(value) if hasattr(value, "keys") else len(value)
        known = bound.setdefault(axis.name, Known(found, f"{who} has"))
        both = isinstance(found, list) and isinstance(known.length, list)
        if known.length != found if both else count(known.length) != count(found):
            raise InvalidInput(f"{who} must have the {axis.name} that {known.who}, {known.length}, got {found}")


def parts_of(line: str) -> Iterator[str]:
    """Yield what stands before the first colon of ``line`` and what stands after it; nothing where there is none."""
    head, colon, rest = line.partition(":")
    yield from (head.strip(), rest.strip()) if colon else ("", line)

"""What a plotting function takes, in a line above it: the axes of its arrays, checked at every call.

    @takes({"sizes": LOOKS}, sizes="<=4: seeds? places, nan", names="places, words", here="in places")
    def plot_it(sizes: Mapping[str, ArrayLike], names: Sequence[str], here: int, ax: Axes) -> Axes: ...

An axis of one name has one length in all arguments, and within one entry of a mapping. ``seeds?`` may be missing,
``*any`` is any number of axes, ``blocks+1`` is one longer than ``blocks``; ``rows<=4`` and ``rows>=2`` bound a length.
Before a colon stands how many entries a mapping or a list of arrays has; a name there means the same names in every
mapping, and ``any`` that there may be none. After a comma: ``nan``, numbers that are not finite can be drawn;
``words``, one axis of texts or of anything else; ``or none``, it may be empty; ``whole``, ``above 0``, and ``-1..3``,
where the numbers lie. ``a | b`` are the shapes of a pair, ``in rows columns`` positions along these axes. The first
argument of ``takes`` names what a mapping may hold, or a text may be.

What has no line is checked by its annotation: numbers, flags, texts, axes and figures. A default is not checked.
"""

from collections import ChainMap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, ValuesView
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from types import MappingProxyType, NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, get_args, get_origin

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import is_color_like
from matplotlib.figure import Figure

from residual_edu.invalid_input import InvalidInput, shown
from residual_edu.plotting.arrays import Known, check_array, check_names, check_positions, numbers, parts_of

P = ParamSpec("P")
R = TypeVar("R")
Scope = ChainMap[str, Known]
Allowed = Mapping[str, Collection[str]]
ANYTHING: Allowed = MappingProxyType({})


def takes(allowed: Allowed = ANYTHING, /, **lines: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return the decorator that checks each call of a function by ``lines``, one for each argument with arrays."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        whole = signature(function)
        annotations = {name: one.annotation for name, one in whole.parameters.items()}

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                given = whole.bind(*args, **kwargs)
            except TypeError:
                return function(*args, **kwargs)  # a wrong call is refused in Python's own words
            for name, value in given.arguments.items():
                if isinstance(value, Iterator | ValuesView):  # which could be read only once
                    given.arguments[name] = list(value)
            check_call(given.arguments, annotations, lines, allowed)
            return function(*given.args, **given.kwargs)

        vars(call)["lines"], vars(call)["allowed"] = lines, allowed
        return call

    return decorate


def check_call(
    values: Mapping[str, Any], annotations: Mapping[str, Any], lines: Mapping[str, str], allowed: Allowed = ANYTHING
) -> None:
    """Raise ``InvalidInput`` unless ``values`` are what their annotations and lines say."""
    scope: Scope = ChainMap({})
    for name in sorted(values, key=lambda name: order(annotations[name], lines.get(name, ""))):
        value, annotation, line, names = values[name], annotations[name], lines.get(name), allowed.get(name)
        if value is None and NoneType in get_args(annotation):
            continue
        if line is None:
            check_simple(name, value, annotation, names)
        elif line.startswith("in "):
            check_positions(name, value, line, scope, several=get_origin(annotation) not in (None, tuple, UnionType))
        else:
            check_value(name, value, annotation, line, scope, names)


def order(annotation: Any, line: str) -> int:
    """Return when an argument is checked: arrays, then mappings of them, then positions in either."""
    return 2 if line.startswith("in ") else 1 if kind_of(annotation, line) in ("mapping", "list") else 0


def kind_of(annotation: Any, line: str) -> str:
    """Return whether ``line`` is about a "mapping", a "list" of arrays, a "pair", or an "array"."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Mapping:
        return "mapping"
    if "|" in line:
        return "pair"
    return "list" if ":" in line and origin is not None and inner else "array"


def check_value(
    who: str, value: Any, annotation: Any, line: str, scope: Scope, names: Collection[str] | None = None
) -> None:
    """Raise ``InvalidInput`` unless ``value`` is what ``line`` says, or a mapping, list or pair of it."""
    kind = kind_of(annotation, line)
    if kind == "array":
        check_array(who, value, line, scope)
        if get_args(annotation) == (str,) and not all(isinstance(one, str | int | float | np.generic) for one in value):
            raise InvalidInput(f"{who} must be a list of texts, got {shown(value)}")
    elif kind == "pair":
        check_kind(who, value, (tuple, list), "a pair")
        if len(value) != 2:
            raise InvalidInput(f"{who} must be a pair, got {len(value)}")
        for place, (one, its) in enumerate(zip(value, line.split("|"), strict=True)):
            check_array(f"{who}[{place}]", one, its, scope)
    else:
        check_entries(who, value, annotation, line, scope, names)


def check_entries(
    who: str, value: Any, annotation: Any, line: str, scope: Scope, names: Collection[str] | None
) -> None:
    """Raise ``InvalidInput`` unless ``value`` is a mapping or list whose entries are what ``line`` says."""
    mapping, inner = get_origin(annotation) is Mapping, get_args(annotation)[-1]
    check_kind(who, value, (Mapping,) if mapping else (Sequence, np.ndarray), "a dict" if mapping else "a list")
    count, rest = parts_of(line)
    check_names(who, value, count, scope.maps[-1])
    for key, one in value.items() if mapping else enumerate(value):
        if mapping:
            check_key(f"{who} has a name that", key, get_args(annotation)[0])
        if names is not None and mapping and get_origin(inner) is not Mapping:
            check_allowed(f"{who} has a name that", key, names)
        check_value(f"{who}[{key!r}]", one, inner, rest, scope.new_child(), names)


def check_key(who: str, key: Any, kind: Any) -> None:
    """Raise ``InvalidInput`` unless a name in a mapping is a text, or a pair where the annotation says so."""
    if kind is str:
        check_kind(who, key, (str,), "a text")
    elif get_origin(kind) is tuple and not (isinstance(key, tuple) and len(key) == len(get_args(kind))):
        raise InvalidInput(f"{who} must have {len(get_args(kind))} parts, got {shown(key)}")


def check_simple(who: str, value: Any, annotation: Any, names: Collection[str] | None = None) -> None:
    """Raise ``InvalidInput`` unless ``value`` is the number, flag, text, axes or figure that ``annotation`` says."""
    kinds = [kind for kind in get_args(annotation) or (annotation,) if kind is not NoneType]
    if kinds[0] in (int, float):
        check_number(who, value, int in kinds and float not in kinds)
    elif kinds[0] is bool:
        check_kind(who, value, (bool, np.bool_), "True or False")
    elif kinds[0] is str:
        check_kind(who, value, (str,), "a text")
        if who == "color" and not is_color_like(value):
            raise InvalidInput(f"color must be one that matplotlib knows, such as '#882255', got {value!r}")
    elif kinds[0] in (Axes, Figure):
        check_kind(who, value, (kinds[0],), f"a matplotlib {kinds[0].__name__}, as plt.subplots() makes it")
    if names is not None:
        check_allowed(who, value, names)


def check_number(who: str, value: Any, whole: bool) -> None:
    """Raise ``InvalidInput`` unless ``value`` is one finite number, a whole one if need be."""
    check_array(who, value, "", {})
    kind = numbers(who, value).dtype.kind
    if kind == "b" or (whole and kind == "f"):
        raise InvalidInput(f"{who} must be a {'whole ' if whole else ''}number, got {shown(value)}")


def check_kind(who: str, value: Any, kinds: tuple[type, ...], wanted: str) -> None:
    """Raise ``InvalidInput`` unless ``value`` is one of ``kinds``."""
    if not isinstance(value, kinds) or (isinstance(value, str) and str not in kinds):
        raise InvalidInput(f"{who} must be {wanted}, got {shown(value)}")


def check_allowed(who: str, value: Any, names: Collection[str]) -> None:
    """Raise ``InvalidInput``, with the nearest name, unless ``value`` is one of ``names``."""
    if value not in names:
        near = get_close_matches(value, names, n=1) if isinstance(value, str) else []
        mend = f"; did you mean {near[0]!r}?" if near else ""
        raise InvalidInput(f"{who} must be one of {', '.join(map(repr, names))}, got {shown(value)}{mend}")

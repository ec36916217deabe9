"""A right call of every plotting function, made from the line above it: of a new one too."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import get_args, get_origin

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from residual_edu import plotting
from residual_edu.plotting.arrays import RANGE, axes_of, parts_of
from residual_edu.plotting.takes import kind_of

NO_PLOTS = {"arrays", "takes", "style", "picture"}  # modules that draw nothing
LENGTHS = {
    "selective_scan.plot_rows": {"conditions": 3},
    "vit5.plot_heard": {"tokens": 11, "others": 2},
}  # nine patches are a square


def functions():
    """Every function by its name, those of other modules and those that begin with an underscore left out."""
    for info in pkgutil.iter_modules(plotting.__path__, plotting.__name__ + "."):
        short = info.name.rpartition(".")[2]
        if short not in NO_PLOTS:
            for name, one in vars(importlib.import_module(info.name)).items():
                if inspect.isfunction(one) and one.__module__ == info.name and not name.startswith("_"):
                    yield f"{short}.{name}", one


def needs_line(annotation):
    """Whether an argument holds more than one number, flag or text."""
    plain = [each for each in get_args(annotation) or (annotation,) if each is not type(None)]
    return annotation == ArrayLike or not all(isinstance(each, type) for each in plain)


FUNCTIONS = dict(functions())
TAKING = {name: one for name, one in FUNCTIONS.items() if hasattr(one, "lines")}


def axes():
    """Axes on a figure that can be drawn."""
    figure = Figure()
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def right_call(name):
    """The arguments of a right call, by name."""
    function = TAKING[name]
    made = Made(function, LENGTHS.get(name, {}))
    given = inspect.signature(function).parameters.items()
    by_hand = {key: make() for key, make in BY_HAND.get(name, {}).items()}
    return {key: made.value(key, one) for key, one in given if made.needs(key, one) and key not in by_hand} | by_hand


def drawn_on():
    """Axes with a line."""
    ax = axes()
    ax.plot([1.0, 2.0])
    return ax


def flow():
    """Two steps of three blocks."""
    places, blocks = np.ones((2, 4)), np.full((2, 3), 0.5)
    return SimpleNamespace(activation=places, added=blocks, stream_gradient=places, branch_gradient=blocks)


SIMPLE = {int: lambda: 1, float: lambda: 1.5, bool: lambda: True, Axes: axes, Figure: Figure}
BY_HAND = {
    "attention.plot_masks": {"axes": lambda: [axes(), axes()]},
    "scan_state.plot_left": {"axes": lambda: [axes(), axes()]},
    "stream.plot_stream": {"flow": flow},
    "three_curves.plot_reconstruction": {"ax": drawn_on},
}


class Made:
    """What a line asks for, with one length for each name of an axis."""

    def __init__(self, function, lengths):
        self.lines, self.allowed, self.random = function.lines, function.allowed, np.random.default_rng(0)
        counts = re.findall(r"([a-z_]+)(?:<=\d+)?:", " ".join(self.lines.values()))
        self.lengths = dict.fromkeys(counts, 2) | lengths

    def needs(self, key, parameter):
        return key in self.lines or parameter.default is parameter.empty

    def value(self, key, parameter):
        if key in self.lines:
            return self.entry(key, parameter.annotation, self.lines[key])
        if key == "color":
            return "#882255"
        kinds = get_args(parameter.annotation) or (parameter.annotation,)
        if kinds[0] is str:
            return next(iter(self.allowed.get(key, ["text"])))
        return SIMPLE[kinds[0]]()

    def entry(self, key, annotation, line):
        kind = kind_of(annotation, line)
        if line.startswith("in "):
            origin = get_origin(annotation)
            return 1 if origin is None else (1, 1) if origin is not Iterable else [1]
        if kind == "pair":
            return tuple(self.array(part) for part in line.split("|"))
        if kind == "array":
            return self.array(line)
        inner, (_, rest) = get_args(annotation)[-1], parts_of(line)
        entries = self.count(line)
        if kind == "list":
            return [self.entry(key, inner, rest) for _ in range(entries)]
        names = self.names(key, annotation, inner)
        return {name: self.entry(key, inner, rest) for name in names[:entries]}

    def names(self, key, annotation, inner):
        kind = get_args(annotation)[0]
        if get_origin(kind) is tuple:
            return [("kind", 0.0), ("kind", 0.5)]
        if kind in (int, float):
            return [kind(1), kind(2), kind(3)]
        return list(self.allowed.get(key, "abcd")) if get_origin(inner) is not Mapping else ["first", "second"]

    def count(self, line):
        head = next(parts_of(line))
        return int(head) if head.isdigit() else 2

    def length(self, axis):
        if axis.name.isdigit():
            return int(axis.name)
        free = axis.limit if axis.bound == "<" else 5 + len(self.lengths)
        return self.lengths.setdefault(axis.name, free) + axis.more

    def array(self, line):
        shape = [3] if line.strip().startswith("*") else [self.length(axis) for axis in axes_of(line)]
        if "words" in line:
            return [f"word {place}" for place in range(shape[0])]
        (low, high) = found.groups() if (found := RANGE.search(line)) else (None, None)
        if "whole" in line:
            return self.random.integers(int(low or 1), int(high or 3) + 1, shape)[()]
        return 0.1 + 0.8 * self.random.random(shape)


def variants(value):
    """Values that may be wrong where ``value`` is right."""
    yield from (None, "x", object(), [], {}, [None], {"a": "x"}, 1j, np.zeros((2, 0)), [[1], [2, 3]])
    if isinstance(value, Mapping) and value:
        first, one = next(iter(value.items()))
        yield from ({**value, first: other} for other in variants(one))
        yield dict.fromkeys(range(7), one)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield from (value[:1], [*value, *value], tuple(value[:-1]), [value])
    elif isinstance(value, np.ndarray | float):
        array = np.asarray(value, float)
        yield from (array[None], array * np.nan, np.full_like(array, np.inf), -array, array.ravel(), array[..., None])
        for axis in range(array.ndim):
            yield from (np.repeat(array, 2, axis), array.take([0], axis), array.take(0, axis), array.take([], axis))

"""The checks that two or more modules of this library use; their error, ``InvalidInput``, has a file of its own.

A check is a statement: it returns nothing and raises ``InvalidInput``, whose message names the argument, what it must
be, what it was, and how to mend it. A constructor leaves its single arguments to ``checked.py``. What one
place alone knows is a ``raise InvalidInput(...)`` there. Below: numbers and choices, positions and axes of space,
tensors; of modules, the dtype and device of their weights. What is called: ``calls.py``.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from numbers import Integral

import torch
from torch import Tensor, nn

from residual_edu.invalid_input import InvalidInput, is_number, shown

SPACE = {1: "positions", 2: "height, width", 3: "depth, height, width"}
OWN_DTYPE = (nn.Linear, nn.modules.conv._ConvNd)  # torch's layers that take the dtype of their weights alone,
NO_WIDER = (nn.LayerNorm, nn.RMSNorm)  # and those that take a narrower one besides


def check_size(name: str, value: int, least: int | None = 1) -> None:
    """Raise ``InvalidInput`` unless ``value`` is a whole number, Python's or NumPy's, at least ``least`` if given."""
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, Integral | torch.SymInt)):
        raise InvalidInput(f"{name} must be a whole number, got {shown(value)}")
    if least is not None and value < least:
        raise InvalidInput(f"{name} must be at least {least}, got {value}")


def check_positive(name: str, value: float) -> None:
    """Raise ``InvalidInput`` unless ``value`` is a finite number above 0."""
    if not (is_number(value) and 0 < value < float("inf")):
        raise InvalidInput(f"{name} must be a finite number above 0, got {shown(value)}")


def check_not_negative(name: str, value: float) -> None:
    """Raise ``InvalidInput`` unless ``value`` is a finite number of at least 0."""
    if not (is_number(value) and 0 <= value < float("inf")):
        raise InvalidInput(f"{name} must be a finite number, at least 0, got {shown(value)}")


def check_finite(name: str, value: float) -> None:
    """Raise ``InvalidInput`` unless ``value`` is a finite number."""
    if not (is_number(value) and abs(value) < float("inf")):
        raise InvalidInput(f"{name} must be a finite number, got {shown(value)}")


def check_rate(name: str, value: float) -> None:
    """Raise ``InvalidInput`` unless ``value`` lies in [0, 1)."""
    if not is_number(value):
        raise InvalidInput(f"{name} must be a number in [0, 1), got {shown(value)}")
    if not 0 <= value < 1:
        why = "; a rate of 1 would drop everything" if value == 1 else ""
        raise InvalidInput(f"{name} must lie in [0, 1), got {shown(value)}{why}")


def check_flag(name: str, value: bool) -> None:
    """Raise ``InvalidInput`` unless ``value`` is True or False."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} must be True or False, got {shown(value)}")


def check_choice(name: str, value: str | None, choices: Iterable[str | None]) -> None:
    """Raise ``InvalidInput``, with the nearest choice, unless ``value`` is one of ``choices``."""
    allowed = list(choices)
    if not any(isinstance(value, type(one)) and value == one for one in allowed):
        words = [one for one in allowed if isinstance(one, str)]  # a Literal may allow None as well
        near = get_close_matches(value, words, n=1) if isinstance(value, str) else []
        mend = f"; did you mean {near[0]!r}?" if near else ""
        raise InvalidInput(f"{name} must be one of {', '.join(map(repr, allowed))}, got {shown(value)}{mend}")


def check_text(name: str, value: str) -> None:
    """Raise ``InvalidInput`` unless ``value`` is a text that is not blank."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"{name} must be a sentence for the reader, got {shown(value)}")


def check_divisible(name: str, value: int, divisor: int, why: str) -> None:
    """Raise ``InvalidInput``, with what ``divisor`` is, unless it divides ``value``, a whole number of at least 1."""
    check_size(name, value)
    if value % divisor:
        raise InvalidInput(f"{name} must be divisible by {divisor} ({why}), got {value}")


def check_equal(name: str, value: int, expected: int, why: str) -> None:
    """Raise ``InvalidInput``, with the reason, unless ``value`` is ``expected``."""
    if value != expected:
        raise InvalidInput(f"{name} must be {expected}, {why}, got {value}")


def check_given(name: str, value: object, by: str = "") -> None:
    """Raise ``InvalidInput`` where ``value``, which ``by`` needs, is ``None``."""
    if value is None:
        raise InvalidInput(f"{name} must be given{by and f' for {by}'}, got None")


def check_instance(name: str, value: object, kind: type) -> None:
    """Raise ``InvalidInput`` unless ``value`` is a ``kind``."""
    if not isinstance(value, kind):
        raise InvalidInput(f"{name} must be a {kind.__name__}, got {shown(value)}")


def check_data_dim(name: str, value: int) -> None:
    """Raise ``InvalidInput`` unless ``value`` is 1, 2 or 3."""
    check_size(name, value)
    if value not in SPACE:
        raise InvalidInput(f"{name} must be 1, 2 or 3 (text, images, volumes), got {value}")


def check_sequence(name: str, values: object) -> None:
    """Raise ``InvalidInput`` unless ``values`` is a list or tuple."""
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise InvalidInput(f"{name} must be a list, one for each axis, got {shown(values)}")


def check_one_per_axis(name: str, values: Sequence[object], axes: int) -> None:
    """Raise ``InvalidInput`` unless there are as many ``values`` as space ``axes``."""
    if len(values) != axes:
        raise InvalidInput(
            f"{name} must be one for all, or a list with one for each of {axes} axes, got {list(values)}"
        )


def check_fits(name: str, lengths: Sequence[int], space: Sequence[int]) -> None:
    """Raise ``InvalidInput`` unless each of ``lengths`` is at most its axis of ``space``."""
    if any(length > room for length, room in zip(lengths, space, strict=True)):
        raise InvalidInput(f"{name} must be at most {tuple(space)}, got {tuple(lengths)}")


def check_floating(name: str, x: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``x`` is a tensor of floating-point numbers."""
    if not isinstance(x, Tensor):
        raise InvalidInput(f"{name} must be a tensor, got {shown(x)}")
    if not x.is_floating_point():
        raise InvalidInput(f"{name} must be floating point, got {x.dtype}; convert it with {name}.float()")


def check_axes(name: str, x: Tensor, *axes: str) -> None:
    """Raise ``InvalidInput`` unless ``x`` is a tensor with at least the named ``axes``."""
    if not isinstance(x, Tensor):
        raise InvalidInput(f"{name} must be a tensor, got {shown(x)}")
    if x.ndim < len(axes):
        raise InvalidInput(f"{name} must have at least the axes ({', '.join(axes)}), got shape {tuple(x.shape)}")


def check_device(name: str, x: Tensor, other: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``x`` is on the device of ``other``, its weights or its signal."""
    if x.device != other.device:
        device = str(other.device)
        raise InvalidInput(f"{name} must be on {device}, got {x.device}; move it with {name}.to({device!r})")


def check_layer(name: str, x: Tensor, layer: nn.Module | None) -> None:
    """Raise ``InvalidInput`` unless ``x`` is on the device of ``layer``'s weights, and of their dtype if it counts.

    Computed weights (parametrized, quantised, sharded) are not looked at; autocast converts the dtype by itself.
    """
    weight = None if layer is None else next(iter(layer._parameters.values()), None)
    if type(weight) is not nn.Parameter:
        return
    if x.device != weight.device:
        check_device(name, x, weight)
    if x.dtype == weight.dtype:
        return
    own = isinstance(layer, OWN_DTYPE) or (isinstance(layer, NO_WIDER) and x.dtype.itemsize >= weight.dtype.itemsize)
    if own and not torch.is_autocast_enabled(x.device.type):
        mend = f"convert it with {name}.to({weight.dtype})"
        raise InvalidInput(f"{name} must have the dtype of the weights, {weight.dtype}, got {x.dtype}; {mend}")


def check_not_empty(name: str, x: Tensor) -> None:
    """Raise ``InvalidInput`` where an axis of ``x`` has no entries."""
    if 0 in x.shape:
        raise InvalidInput(f"{name} must have no empty axis, got shape {tuple(x.shape)}")


def check_width(name: str, x: Tensor, width: int, layer: nn.Module | None = None) -> None:
    """Raise ``InvalidInput`` unless ``x``, fit for ``layer``, is floating point, ``width`` along its last axis."""
    check_floating(name, x)
    if x.ndim == 0:
        raise InvalidInput(f"{name} must have a feature axis of {width}, got a single number (no axes)")
    if x.shape[-1] != width:
        raise InvalidInput(f"{name} must have {width} features on its last axis, got shape {tuple(x.shape)}")
    check_layer(name, x, layer)


def check_shape(name: str, x: Tensor, *shape: int | str, layer: nn.Module | None = None) -> None:
    """Raise ``InvalidInput`` unless ``x``, fit for ``layer``, is floating point of ``shape``; names: not empty."""
    check_floating(name, x)
    found = x.shape
    fits = len(found) == len(shape) and 0 not in found
    for wanted, length in zip(shape, found, strict=False):  # all() over a generator takes twice as long
        fits = fits and (type(wanted) is str or wanted == length)
    if not fits:
        empty = "; an axis is empty" if 0 in x.shape else ""
        raise InvalidInput(f"{name} must have shape ({', '.join(map(str, shape))}), got {tuple(x.shape)}{empty}")
    check_layer(name, x, layer)


def check_signal(
    name: str, x: Tensor, channels: int, data_dim: int | None = None, layer: nn.Module | None = None
) -> None:
    """Raise ``InvalidInput`` unless ``x``, fit for ``layer``, is (batch, *space, ``channels``), not empty."""
    check_floating(name, x)
    axes = x.ndim - 2
    if axes not in SPACE or data_dim not in (None, axes) or x.shape[-1] != channels or 0 in x.shape[:-1]:
        space = "1 to 3 axes of space" if data_dim is None else SPACE[data_dim]
        empty = "; an axis is empty" if 0 in x.shape else ""
        raise InvalidInput(f"{name} must have shape (batch, {space}, {channels}), got {tuple(x.shape)}{empty}")
    check_layer(name, x, layer)


def check_same_shape(name: str, x: Tensor, other: str, y: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``x`` is a floating-point tensor of ``y``'s shape."""
    check_floating(name, x)
    if x.shape != y.shape:
        raise InvalidInput(f"{name} must have the shape of {other}, {tuple(y.shape)}, got {tuple(x.shape)}")


def check_same_length(name: str, tensors: Sequence[Tensor]) -> None:
    """Raise ``InvalidInput`` unless all ``tensors`` have the same number of rows, at least one."""
    for x in tensors:
        check_axes(name, x, "rows")
    rows = [len(x) for x in tensors]
    if len(set(rows)) != 1 or rows[0] == 0:
        raise InvalidInput(f"{name} must all have the same number of rows, at least 1, got {rows}")


def check_batch(name: str, x: Tensor, batch: int) -> None:
    """Raise ``InvalidInput`` unless ``x`` holds ``batch`` samples, or one for them all."""
    check_axes(name, x, "batch")
    if x.shape[0] not in (1, batch):
        raise InvalidInput(f"{name} must hold {batch} samples, or 1 for them all, got shape {tuple(x.shape)}")

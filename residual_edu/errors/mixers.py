"""Checks of what mixes positions, and of the signals that it mixes."""

from inspect import signature

from torch import Tensor, nn

from residual_edu.errors.invalid_input import InvalidInput
from residual_edu.errors.tensors import check_width


def check_space(name: str, x: Tensor, width: int) -> None:
    """Raise ``InvalidInput`` unless ``x`` is (batch, 1 to 3 axes of space, ``width``)."""
    check_width(name, x, width)
    if not 3 <= x.ndim <= 5:
        raise InvalidInput(f"{name} must be (batch, 1 to 3 axes of space, channels), got shape {tuple(x.shape)}")


def check_same_axes(name: str, x: Tensor, other: str, y: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``x`` and ``y`` have equally many axes."""
    if x.ndim != y.ndim:
        shapes = f"{tuple(x.shape)} and {tuple(y.shape)}"
        raise InvalidInput(f"{name} must have as many axes as {other}, got shapes {shapes}")


def check_mixer(name: str, module: nn.Module, *counts: int) -> int:
    """Return the first of ``counts`` that ``module`` takes as number of signals, beside ``conditioning=``, or raise."""
    for count in counts:
        try:
            signature(module.forward).bind(*range(count), conditioning=None)
        except TypeError:
            continue
        return count
    ways = " or ".join({1: "one signal", 3: "query, key and value"}[count] for count in counts)
    kind = f"{type(module).__name__}.forward{signature(module.forward)}".split(" ->")[0]
    raise InvalidInput(f"{name} must take {ways}, and conditioning=, got {kind}")


def check_follows(name: str, y: Tensor) -> None:
    """Raise ``InvalidInput`` unless autograd knows how ``y`` came about."""
    if not y.requires_grad:
        raise InvalidInput(f"{name} must have a gradient with respect to x, got one without; detach nothing on the way")

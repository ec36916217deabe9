"""What the library says when it is handed something it cannot use.

Every check of an argument stands here, so that every message is phrased once: the parameter, what it must be,
what came, and how to mend it.
"""

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from inspect import signature
from numbers import Integral, Real
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn


class InvalidInput(ValueError, AssertionError):
    """An argument that cannot be used; the message names it, its value, and the mend.

    It is a ``ValueError``, as Python's users expect, and an ``AssertionError``, as the pages that this library
    grew from promise.
    """


def check_size(name: str, value: int) -> None:
    """Raise ``InvalidInput`` unless ``value`` is a whole number of at least 1, Python's or NumPy's."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidInput(f"{name} must be a whole number, got {_shown(value)}")
    if value < 1:
        raise InvalidInput(f"{name} must be at least 1, got {value}")


def check_below(name: str, value: int, limit: int) -> None:
    """Raise ``InvalidInput`` unless ``value`` is below ``limit``."""
    if value >= limit:
        raise InvalidInput(f"{name} must be below {limit}, got {value}")


def check_positive(name: str, value: float) -> None:
    """Raise ``InvalidInput`` unless ``value`` is a finite number above 0."""
    if not (_is_number(value) and 0 < value < float("inf")):
        raise InvalidInput(f"{name} must be a finite number above 0, got {_shown(value)}")


def check_not_negative(name: str, value: float) -> None:
    """Raise ``InvalidInput`` unless ``value`` is a finite number of at least 0."""
    if not (_is_number(value) and 0 <= value < float("inf")):
        raise InvalidInput(f"{name} must be a finite number, at least 0, got {_shown(value)}")


def check_rate(name: str, value: float) -> None:
    """Raise ``InvalidInput`` unless ``value`` lies in [0, 1)."""
    if not _is_number(value):
        raise InvalidInput(f"{name} must be a number in [0, 1), got {_shown(value)}")
    if not 0 <= value < 1:
        why = "; a rate of 1 would drop everything" if value == 1 else ""
        raise InvalidInput(f"{name} must lie in [0, 1), got {_shown(value)}{why}")


def check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """Raise ``InvalidInput``, with the nearest choice, unless ``value`` is one of ``choices``."""
    allowed = list(choices)
    if not isinstance(value, str) or value not in allowed:
        near = get_close_matches(value, allowed, n=1) if isinstance(value, str) else []
        mend = f"; did you mean {near[0]!r}?" if near else ""
        raise InvalidInput(f"{name} must be one of {', '.join(map(repr, allowed))}, got {_shown(value)}{mend}")


def check_text(name: str, value: str) -> None:
    """Raise ``InvalidInput`` unless ``value`` says something."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"{name} must be a sentence for the reader, got {_shown(value)}")


def check_tensor(name: str, x: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``x`` is a tensor."""
    if not isinstance(x, Tensor):
        raise InvalidInput(f"{name} must be a tensor, got {_shown(x)}")


def check_floating(name: str, x: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``x`` is a tensor of floating-point numbers."""
    check_tensor(name, x)
    if not x.is_floating_point():
        raise InvalidInput(f"{name} must be floating point, got {x.dtype}; convert it with {name}.float()")


def check_width(name: str, x: Tensor, width: int) -> None:
    """Raise ``InvalidInput`` unless ``x`` is a tensor whose last axis is ``width`` long."""
    check_tensor(name, x)
    if x.ndim == 0:
        raise InvalidInput(f"{name} must have a feature axis of {width}, got a single number (no axes)")
    if x.shape[-1] != width:
        raise InvalidInput(f"{name} must have {width} features on its last axis, got shape {tuple(x.shape)}")


def check_axes(name: str, x: Tensor, *axes: str) -> None:
    """Raise ``InvalidInput`` unless ``x`` is a tensor with at least as many axes as are named."""
    check_tensor(name, x)
    if x.ndim < len(axes):
        raise InvalidInput(f"{name} must have at least the axes ({', '.join(axes)}), got shape {tuple(x.shape)}")


def check_batch(name: str, x: Tensor, batch: int) -> None:
    """Raise ``InvalidInput`` unless ``x`` holds ``batch`` samples, or one for them all."""
    check_axes(name, x, "batch")
    if len(x) not in (1, batch):
        raise InvalidInput(f"{name} must hold {batch} samples, or 1 for them all, got shape {tuple(x.shape)}")


def check_square(name: str, x: Tensor, side: int) -> None:
    """Raise ``InvalidInput`` unless ``x`` is a batch of squares, ``side`` numbers along each side."""
    check_floating(name, x)
    if x.ndim != 3 or x.shape[1:] != (side, side):
        raise InvalidInput(f"{name} must have shape (batch, {side}, {side}), got {tuple(x.shape)}")


def check_labels(name: str, labels: Tensor, count: int) -> None:
    """Raise ``InvalidInput`` unless ``labels`` is a tensor of whole numbers from 0 to ``count`` - 1."""
    check_axes(name, labels, "batch")
    whole = labels.dtype in (torch.int32, torch.int64)
    if not whole or (labels.numel() and not 0 <= labels.min() <= labels.max() < count):
        seen = f"{labels.min()} to {labels.max()}" if whole else str(labels.dtype)
        raise InvalidInput(f"{name} must be whole numbers from 0 to {count - 1}, got {seen}")


def check_same_length(name: str, tensors: Sequence[Tensor]) -> None:
    """Raise ``InvalidInput`` unless all ``tensors`` have the same number of rows, at least one."""
    for x in tensors:
        check_axes(name, x, "rows")
    rows = [len(x) for x in tensors]
    if len(set(rows)) != 1 or rows[0] == 0:
        raise InvalidInput(f"{name} must all have the same number of rows, at least 1, got {rows}")


def check_given(name: str, x: Tensor | None) -> Tensor:
    """Return ``x``, or raise ``InvalidInput`` where it is ``None``."""
    if x is None:
        raise InvalidInput(f"{name} must be given, got None")
    return x


def check_keywords(function: Callable[..., object], keywords: Iterable[str]) -> None:
    """Raise ``InvalidInput``, with what there is, unless ``function`` takes all ``keywords``."""
    try:
        signature(function).bind_partial(**dict.fromkeys(keywords))
    except TypeError as error:
        name = getattr(function, "__qualname__", repr(function))
        raise InvalidInput(f"{name} {error}; it takes {', '.join(signature(function).parameters)}") from None


def check_conditionable(name: str, module: nn.Module) -> None:
    """Raise ``InvalidInput`` unless ``module`` can be called with ``conditioning=``."""
    try:
        signature(module.forward).bind_partial(conditioning=None)
    except TypeError:
        kind = type(module).__name__
        raise InvalidInput(
            f"{name} must take conditioning=, {kind}.forward does not; wrap it in a module whose forward does"
        ) from None


def check_blocks(model: nn.Module, blocks: Iterable[nn.Module]) -> list[nn.Module]:
    """Return ``blocks`` as a list, or raise ``InvalidInput`` unless each is a module inside ``model``."""
    if not isinstance(blocks, Iterable):
        raise InvalidInput(f"blocks must be a list of modules, got {_shown(blocks)}; put it into [ ]")
    listed, inside = list(blocks), set(model.modules())
    if not listed:
        raise InvalidInput("blocks must name at least 1 module, got none")
    for place, block in enumerate(listed):
        if not isinstance(block, nn.Module):
            raise InvalidInput(f"blocks[{place}] must be a module, got {_shown(block)}")
        if block not in inside:
            kind = type(block).__name__
            raise InvalidInput(f"blocks[{place}], a {kind}, must be a module of model; keep blocks in an nn.ModuleList")
    return listed


def check_not_compiled(model: nn.Module, blocks: Iterable[nn.Module]) -> None:
    """Raise ``InvalidInput`` where ``torch.compile`` took more of ``model`` than single ``blocks``."""
    within = {outer for outer in model.modules() for block in blocks if block in set(outer.modules()) - {outer}}
    if any(hasattr(outer, "_orig_mod") or outer._compiled_call_impl is not None for outer in within):
        raise InvalidInput("model must not be compiled: it calls no hooks then; compile its blocks one by one, or none")


def check_pieces(name: str, x: Tensor, count: int) -> None:
    """Raise ``InvalidInput`` unless ``x`` is (batch, parameters), its parameters divided by ``count``."""
    check_tensor(name, x)
    if x.ndim != 2 or x.shape[-1] % count:
        raise InvalidInput(f"{name} must be (batch, a multiple of {count}), got shape {tuple(x.shape)}")


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    """Write ``value`` as Python does, or name its type where that would be long."""
    text = repr(value)
    return text if len(text) <= 40 and "\n" not in text else f"a {type(value).__name__}"

"""What the test of a property is written with: draw inputs, run the answer, compare, and report what was seen.

Each helper raises ``Unmet`` with one sentence that a learner can act on. It begins with "it" or with the name of what
was compared.
"""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor, nn

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 3e-2}


class Unmet(Exception):
    """What an answer did instead of what was asked, in one sentence for the learner."""


class Broken(Unmet):
    """A slip that must be mended before the idea can be judged: nothing was returned, or an input was changed."""


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return standard normal numbers, the same on every call; torch's own generator is left as it is."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def run(function: Callable[..., Any], *inputs: Tensor, like: Tensor | None = None) -> Tensor:
    """Call ``function`` on copies of ``inputs`` and return its tensor; gradients flow back to ``inputs``.

    Raises:
        Unmet: if it returns something else, a shape or dtype other than that of ``like``, or changes its inputs.
    """
    copies = [x.clone() for x in inputs]
    result = function(*copies)
    if not isinstance(result, Tensor):
        raise _wrong_kind("it returned", result, "a tensor was asked for")
    if not all(map(_unchanged, copies, inputs)):
        raise Broken("it changed its input in place; write `x = x - m`, not `x -= m`")
    if like is not None and result.shape != like.shape:
        raise Unmet(f"it returned shape {tuple(result.shape)}, where {tuple(like.shape)} was asked for")
    if like is not None and result.dtype != like.dtype:
        raise Unmet(f"it returned {result.dtype}, where {like.dtype} was asked for")
    return result


def gradients(function: Callable[..., Any], *inputs: Tensor, like: Tensor | None = None) -> tuple[Tensor, ...]:
    """Return the gradient of ``(weights * function(*inputs)).sum()`` for each input, with fixed normal weights.

    Raises:
        Unmet: as ``run`` does, or if no gradient reaches an input.
    """
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    with torch.enable_grad():
        result = run(function, *leaves, like=like)
        weights = draw(*result.shape, seed=1, dtype=result.dtype)
        total = (weights * result).sum()
    found = torch.autograd.grad(total, leaves, allow_unused=True) if total.requires_grad else ()
    if not found or any(gradient is None for gradient in found):
        raise Unmet("no gradient reaches its input; is there a `.detach()`, a `.data`, a `.item()` or a `no_grad`?")
    return found


def close(got: Any, want: Any, what: str = "the output", rtol: float | None = None) -> None:
    """Raise ``Unmet`` unless ``got``, a tensor or number, equals ``want``; NaN equals NaN.

    ``what`` is a noun: "the mean of a row" becomes "the mean of a row at [0, 1] is 1.5 where 1.732 is right", for the
    first number that differs. ``rtol`` is relative to the largest finite number of ``want`` (to 1 if that is 0); left
    out, it follows the coarser dtype.
    """
    a, b = _tensor(got, what), _tensor(want, what)
    if a.shape != b.shape:
        raise Unmet(f"{what} has shape {tuple(a.shape)}, where {tuple(b.shape)} was asked for")
    tolerance = max(TOLERANCE.get(a.dtype, 0.0), TOLERANCE.get(b.dtype, 0.0)) if rtol is None else rtol
    a, b = a.double(), b.double()
    finite = b[b.isfinite()]
    scale = float(finite.abs().max()) if finite.any() else 1.0
    wrong = ~torch.isclose(a, b, rtol=0, atol=tolerance * scale, equal_nan=True)
    if wrong.any():
        at = wrong.nonzero()[0].tolist()
        got_text, want_text = _apart(float(a[*at]), float(b[*at]))
        raise Unmet(f"{what}{f' at {at}' if at else ''} is {got_text} where {want_text} is right")


def construct(answer: Callable[..., Any], *args: Any, **keywords: Any) -> nn.Module:
    """Return the module ``answer(*args, **keywords)`` in float64, or raise ``Unmet`` if it makes no module."""
    module = answer(*args, **keywords)
    if not isinstance(module, nn.Module):
        raise _wrong_kind("it made", module, "an nn.Module was asked for")
    return module.double()


def value_of(answer: Callable[[], Any], kind: type) -> Any:
    """Return ``answer()``, a number (``kind`` ``int`` or ``float``) or a text (``str``), or raise ``Unmet``.

    A text is returned in small letters without spaces around it, a tensor or array of one number as that number.
    The comparison is left to the exercise, whose messages must not give the right value away.
    """
    value = answer()
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, str) and kind is str:
        return value.strip().lower()
    if isinstance(value, Real) and not isinstance(value, bool) and kind in (int, float):
        number = float(value)
        return int(number) if number.is_integer() else number
    raise _wrong_kind("it returned", value, f"a {'text' if kind is str else 'number'} was asked for")


def _tensor(value: Any, what: str) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if not isinstance(value, Real):
        raise _wrong_kind(f"{what} is", value, "a tensor or a number was asked for")
    return torch.tensor(value, dtype=torch.int64 if isinstance(value, Integral) else torch.float64)


def _wrong_kind(said: str, value: Any, asked: str) -> Unmet:
    """Name the type of ``value``, with its article, and what was asked for."""
    if value is None:
        return Broken(f"{said} nothing (is a `return` missing?), where {asked}")
    name = type(value).__name__
    return Unmet(f"{said} {'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}, where {asked}")


def _unchanged(copy: Tensor, original: Tensor) -> bool:
    return copy.shape == original.shape and torch.allclose(copy, original, rtol=0, atol=0, equal_nan=True)


def _apart(a: float, b: float) -> tuple[str, str]:
    """Write two numbers with 4 digits, or with as many more as it takes to tell them apart."""
    pairs = [(f"{a:.{digits}g}", f"{b:.{digits}g}") for digits in range(4, 18)]
    return next((pair for pair in pairs if pair[0] != pair[1]), pairs[-1])

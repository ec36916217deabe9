"""What the test of a property is written with: draw inputs, run the answer, compare, and report what was seen.

Each helper raises ``Unmet`` with one sentence that a learner can act on. It begins with "it" or with the name of what
was compared. Types and dtypes are mechanical: what can be compared is cast, and a note says so once.
"""

import inspect
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from residual_course.checking.unchanged import unchanged
from residual_course.checking.unmet import Broken, Unmet, note, wrong_kind

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 3e-2}


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return standard normal numbers, the same on every call; torch's own generator is left as it is."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def run(function: Callable[..., Any], *inputs: Tensor, like: Tensor | None = None) -> Tensor:
    """Call ``function`` on copies of ``inputs`` and return its tensor; gradients flow back to ``inputs``.

    Where ``like`` is in float64, as ``draw`` makes it, another dtype is noted and accepted; where ``like`` has another
    dtype, the dtype is asked for.

    Raises:
        Unmet: if it returns something else, a shape other than that of ``like``, or changes its inputs.
    """
    copies = [x.clone() for x in inputs]
    with unchanged(**dict(zip(named(function, inputs), copies, strict=True))):
        result = tensor(function(*copies), "it returned")
    if like is not None:
        fits(result, like)
    return result


def fits(result: Tensor, like: Tensor) -> None:
    """Raise ``Broken`` unless ``result`` has the shape of ``like``, and its dtype where that is not float64."""
    if result.shape != like.shape:
        raise Broken(f"it returned shape {tuple(result.shape)}, where {tuple(like.shape)} was asked for")
    if result.dtype != like.dtype:
        if like.dtype != torch.float64:
            raise Broken(f"it returned {result.dtype}, where {like.dtype} was asked for")
        note(f"Your answer returned {result.dtype} for inputs in torch.float64; it was cast, and tested on.")


def named(function: Callable[..., Any], inputs: Sequence[Any]) -> list[str]:
    """Return the names of the function's parameters for these inputs; "input 1" and so on where they are not known."""
    try:
        names = [
            name for name, p in inspect.signature(function).parameters.items() if p.kind <= p.POSITIONAL_OR_KEYWORD
        ]
    except (TypeError, ValueError):
        names = []
    return [names[i] if i < len(names) else f"input {i + 1}" for i in range(len(inputs))]


def close(got: Any, want: Any, what: str = "the output", rtol: float | None = None) -> None:
    """Raise ``Unmet`` unless ``got``, a tensor, array or number, equals ``want``; NaN equals NaN.

    ``what`` is a noun: "the mean of a row" becomes "the mean of a row at [0, 1] is 1.5 where 1.732 is right", for the
    first number that differs. ``rtol`` is relative to the largest finite number of ``want`` (to 1 if that is 0); left
    out, it follows the coarser dtype.
    """
    a, b = tensor(got, f"{what} is").detach().cpu(), tensor(want, f"{what} is").detach().cpu()
    if a.shape != b.shape:
        raise Broken(f"{what} has shape {tuple(a.shape)}, where {tuple(b.shape)} was asked for")
    tolerance = max(TOLERANCE.get(a.dtype, 0.0), TOLERANCE.get(b.dtype, 0.0)) if rtol is None else rtol
    a, b = a.double(), b.double()
    finite = b[b.isfinite()]
    scale = float(finite.abs().max()) if finite.any() else 1.0
    wrong = ~torch.isclose(a, b, rtol=0, atol=tolerance * scale, equal_nan=True)
    if wrong.any():
        at = wrong.nonzero()[0].tolist()
        got_text, want_text = apart(float(a[*at]), float(b[*at]))
        raise Unmet(f"{what}{f' at {at}' if at else ''} is {got_text} where {want_text} is right")


def construct(answer: Callable[..., Any], *args: Any, **keywords: Any) -> nn.Module:
    """Return the module ``answer(*args, **keywords)`` in float64, or raise ``Unmet`` if it makes no module."""
    module = answer(*args, **keywords)
    if not isinstance(module, nn.Module):
        raise wrong_kind("it made", module, "an nn.Module was asked for")
    return module.double()


def value_of(answer: Callable[[], Any]) -> float:
    """Return ``answer()``, a number, or raise ``Unmet``.

    A tensor or array of one number is returned as that number, and one that is whole but for float32's rounding as
    the whole one. The comparison is left to the exercise, whose messages must not give the right value away.
    """
    value = answer()
    if isinstance(value, Tensor | np.ndarray) and np.prod(value.shape) == 1:
        value = value.item()
    if not isinstance(value, Real) or isinstance(value, bool):
        raise wrong_kind("it returned", value, "a number was asked for")
    return whole(float(value))


def numbers_of(value: Any) -> Tensor:
    """Return a list, a tuple, a tensor or an array of numbers as a float64 tensor, or raise ``Unmet``."""
    if isinstance(value, Tensor | np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        raise wrong_kind("it returned", value, "a list of numbers was asked for")
    return torch.tensor([float(one) for one in value], dtype=torch.float64)


def whole(number: float) -> float:
    """Return a number that is whole but for the rounding of float32 as an int, and any other as it is."""
    if not np.isfinite(number) or abs(number - round(number)) > 1e-6 * abs(number):
        return number
    return int(round(number))


def tensor(value: Any, said: str) -> Tensor:
    """Return a tensor, number, NumPy number or NumPy array as a tensor, or raise ``Broken`` with what it is."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        return torch.from_numpy(np.array(value))
    if not isinstance(value, Real):
        raise wrong_kind(said, value, f"a tensor{'' if said == 'it returned' else ' or a number'} was asked for")
    return torch.tensor(value, dtype=torch.int64 if isinstance(value, Integral) else torch.float64)


def apart(a: float, b: float) -> tuple[str, str]:
    """Write two numbers with 4 digits, or with as many more as it takes to tell them apart."""
    pairs = [(f"{a:.{digits}g}", f"{b:.{digits}g}") for digits in range(4, 18)]
    return next((pair for pair in pairs if pair[0] != pair[1]), pairs[-1])

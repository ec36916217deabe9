"""What came of a call: right, a sentence, Python's own TypeError, a raw error, or wrong by a rule of its own.

A flag counts by its truth and True as 1, as in Python and torch: that is no wrong answer.
"""

import copy
import re
import warnings
from typing import Any

import numpy as np
import torch
from torch import nn

import residual_edu as library
from residual_edu import InvalidInput

from . import cases
from .cases import Case

PYTHONS = re.compile(r"unexpected keyword|missing \d+ required|multiple values|positional argument")
ALWAYS = (cases.same, cases.attended)  # rules on shapes that hold whatever the class was made with


def result_of(name: str, case: Case, made: dict[str, Any], call: dict[str, Any], seed: int = 0) -> Any:
    """Return what the call returns, its module built anew and in evaluation."""
    torch.manual_seed(seed)
    target = getattr(library, name)
    if case.made is None:
        return target(**call)
    thing = target(**made)
    if case.call is None:
        return thing
    if isinstance(thing, nn.Module):
        thing.eval()
    result = getattr(thing, "__call__" if case.method == "forward" else case.method)(**call)
    return library.build(result) if name == "LazyConfig" else result  # only now are the values looked at


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Every floating-point tensor within ``value``."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else ()
    return [one for each in inner for one in tensors_in(each)]


def numbers_in(given: Any) -> list[torch.Tensor]:
    """A number as a tensor: one that is not finite may make a result that is not, and that is not silent."""
    return [torch.tensor(given)] if isinstance(given, float) else []


def outcome(name: str, case: Case, made: dict[str, Any], call: dict[str, Any], right: Any, given: Any) -> str:
    """Return the kind of what comes of the call with ``given`` in place of ``right``, and of "wrong" and "raw" why."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = result_of(name, case, made, copy.deepcopy(call))
        except InvalidInput:
            return "sentence"
        except TypeError as error:
            return "python" if PYTHONS.search(str(error)) else f"raw TypeError: {error}"
        except Exception as error:  # noqa: BLE001
            return f"raw {type(error).__name__}: {error}"
        return why_wrong(name, case, made, call, result, right, given) or "right"


def why_wrong(name: str, case: Case, made: Any, call: Any, result: Any, right: Any, given: Any) -> str:
    """Return why an accepted call is wrong, nothing where no rule says so."""
    if isinstance(right, int) and isinstance(given, float) and not given.is_integer():
        return f"wrong: {given!r} counts as a whole number"
    if isinstance(right, float) and isinstance(given, str):
        return f"wrong: {given!r} counts as a number"
    found = tensors_in(result)
    inputs = [each for each in [*tensors_in(call), *tensors_in(made), *numbers_in(given)] if each.is_cpu]
    if all(each.isfinite().all() for each in inputs) and not all(
        each.isfinite().all() for each in found if each.is_cpu
    ):
        return "wrong: not finite"
    called = case.shape in ALWAYS or any(each is given for each in call.values())
    expected = case.shape(**call) if found and called else None
    if expected is not None and tuple(found[0].shape) != expected:
        return f"wrong: shape {tuple(found[0].shape)}, not {expected}"
    return rows_apart(name, case, made, call, found)


def rows_apart(name: str, case: Case, made: Any, call: Any, found: list[torch.Tensor]) -> str:
    """Return "wrong" where a sample alone gives another result than among others."""
    signals = [call[key] for key in case.rows if isinstance(call[key], torch.Tensor)]
    if not signals or not found or len({s.dtype for s in found[:1]} | {torch.float32}) > 1 or not found[0].is_cpu:
        return ""
    batch = max((len(each) for each in signals if each.ndim), default=0)
    whole = [case.call[key].ndim for key in case.rows]  # type: ignore[index, union-attr]
    fewer = any(call[key].ndim < ndim for key, ndim in zip(case.rows, whole, strict=True) if key in case.rows[:1])
    if batch < 2 or fewer or len(found[0]) != batch:
        return ""
    for place in range(batch):
        alone = dict(call)
        for key in case.rows:
            value = call[key]
            if isinstance(value, torch.Tensor | np.ndarray) and value.ndim and len(value) == batch:
                alone[key] = value[place : place + 1]
        among = found[0][place]
        if name == "LanguageModel" and alone["token_mask"] is not None:  # alone, a row needs no padding
            length = int(alone["token_mask"].sum())
            alone |= {"tokens": alone["tokens"][:, -length:], "token_mask": None}
            among = among[-length:]
        one = tensors_in(result_of(name, case, made, alone))[0]
        if not torch.allclose(one[0], among, rtol=1e-3, atol=1e-4, equal_nan=True):
            return f"wrong: sample {place} alone gives another result"
    return ""

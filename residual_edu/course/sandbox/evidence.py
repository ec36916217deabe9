"""What an answer returned, as plain data, so that another process can see for itself that it is right.

An answer can talk its own process into anything: a patched comparison, a check that always passes. It cannot talk
another process into numbers that it does not have.
"""

import math
from typing import Any

NUMBERS = 4096  # of a tensor that are kept
TOLERANCE = 1e-3  # relative to the largest finite number of a tensor


def plain(value: Any, depth: int = 8) -> Any:
    """Return ``value`` as what JSON can say: numbers, texts, lists, tensors by shape and numbers, others by type."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float | str):
        return str(value) if isinstance(value, str) else float(value)
    if depth and isinstance(value, list | tuple):
        return [plain(each, depth - 1) for each in value]
    if depth and isinstance(value, dict):
        return sorted([str(key), plain(each, depth - 1)] for key, each in value.items())
    if hasattr(value, "detach") and hasattr(value, "shape"):
        flat = value.detach().reshape(-1)[:NUMBERS].tolist()
        return {"shape": list(value.shape), "numbers": [float(each) for each in flat]}
    return {"type": type(value).__name__}


def alike(got: Any, want: Any) -> bool:
    """Whether two plain values say the same, numbers up to ``TOLERANCE``, NaN equal to NaN."""
    if number(got) and number(want):
        return near(got, want, max(abs(want), 1e-9) if math.isfinite(want) else 1.0)
    if isinstance(got, list) and isinstance(want, list):
        return len(got) == len(want) and all(map(alike, got, want))
    if isinstance(got, dict) and isinstance(want, dict) and "numbers" in want:
        return got.get("shape") == want["shape"] and all_near(got.get("numbers"), want["numbers"])
    return type(got) is type(want) and got == want


def confirmed(got: Any, want: list[list[Any]]) -> bool:
    """Whether each piece of evidence is like one of the alternatives that right answers gave in its place."""
    if not isinstance(got, list) or len(got) != len(want):
        return False
    return all(any(alike(each, right) for right in rights) for each, rights in zip(got, want, strict=True))


def all_near(got: Any, want: list[float]) -> bool:
    """Whether a tensor's numbers agree, relative to the largest."""
    if not isinstance(got, list) or len(got) != len(want):
        return False
    scale = max((abs(each) for each in want if math.isfinite(each)), default=1.0) or 1.0
    return all(number(a) and near(a, b, scale) for a, b in zip(got, want, strict=True))


def number(value: Any) -> bool:
    """Whether a plain value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def near(a: float, b: float, scale: float) -> bool:
    """Whether two numbers agree relative to ``scale``; NaN and infinities only with themselves."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return a == b or (math.isnan(a) and math.isnan(b))
    return abs(a - b) <= TOLERANCE * scale

"""The number of floating-point operations of a module for one sample; a multiplication and an addition are two.

A module that knows its own has ``flop_count(shape, inference=False)``, where ``shape`` is the number of positions, or
the lengths of the signal's axes. With ``inference=True`` what can be computed once and kept is not counted.
"""

from collections.abc import Sequence
from math import prod

from torch import nn

from residual_edu.old_errors import check_size

Shape = int | Sequence[int]


def count_positions(shape: Shape) -> int:
    """Return the number of positions of a signal: the product of the lengths of its axes, or ``shape`` itself.

    Raises:
        InvalidInput: for a length below 1.
    """
    lengths = [shape] if isinstance(shape, int) else list(shape)
    for length in lengths:
        check_size("shape", length)
    return prod(lengths)


def flop_count(module: nn.Module, shape: Shape, inference: bool = False) -> int:
    """Return ``module.flop_count(shape, inference)``, or 0 for a module without that method."""
    count = getattr(module, "flop_count", None)
    return 0 if count is None else count(shape, inference)

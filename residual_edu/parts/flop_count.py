"""The number of floating-point operations of a module for one sample; a + b c is two.

With ``inference=True`` what can be computed once and kept is not counted.
"""

from collections.abc import Sequence
from math import prod

from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import TypeAliasType

Shape = TypeAliasType("Shape", int | Sequence[int])  # positions, or lengths of axes
Signal = Float[Tensor, "batch *space channels"]


def count_positions(shape: Shape) -> int:
    """Return the number of positions of a signal, the product of its axes' lengths."""
    return shape if isinstance(shape, int) else prod(shape)


def flop_count(module: nn.Module, shape: Shape, inference: bool = False) -> int:
    """Return ``module.flop_count(shape, inference)``, or 0 without that method."""
    count = getattr(module, "flop_count", None)
    return 0 if count is None else count(shape, inference)

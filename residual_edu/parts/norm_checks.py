"""Checks of what is normalised, which norms have in common, and of how many features have a standard deviation."""

from typing import Annotated

from torch import Tensor

from residual_edu.old_errors import (
    InvalidInput,
    check_axes,
    check_device,
    check_floating,
    check_not_negative,
    check_shape,
    check_size,
)


def check_normed(x: Tensor, eps: float, **weights: Tensor | None) -> None:
    """Raise ``InvalidInput`` unless ``x`` can be normalised: ``eps`` at least 0, ``weights`` as wide, on its device."""
    check_axes("x", x, "features")
    check_floating("x", x)
    check_not_negative("eps", eps)
    for name, weight in weights.items():
        if weight is not None:
            check_shape(name, weight, x.shape[-1])
            check_device(name, weight, x)


def check_several(name: str, value: int) -> None:
    """Raise ``InvalidInput`` unless ``value`` is a whole number of at least 2."""
    check_size(name, value)
    if value == 1:
        why = f"the standard deviation divides by {name} - 1"
        raise InvalidInput(
            f"{name} must be at least 2, since {why}, got 1; LayerNorm takes a single feature"
        )


Several = Annotated[int, check_several]  # at least 2

"""The check of what is normalised, which three norms have in common."""

from torch import Tensor

from residual_edu.errors import check_axes, check_device, check_floating, check_not_negative, check_shape


def check_normed(x: Tensor, eps: float, **weights: Tensor | None) -> None:
    """Raise ``InvalidInput`` unless ``x`` can be normalised: ``eps`` at least 0, ``weights`` as wide, on its device."""
    check_axes("x", x, "features")
    check_floating("x", x)
    check_not_negative("eps", eps)
    for name, weight in weights.items():
        if weight is not None:
            check_shape(name, weight, x.shape[-1])
            check_device(name, weight, x)

"""Checks of what a scan reads, and of the layers that scan."""

from torch import Tensor, nn

from residual_edu.errors.invalid_input import InvalidInput
from residual_edu.errors.tensors import check_floating


def check_scan(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None) -> None:
    """Raise ``InvalidInput`` unless ``x`` is (batch, time, heads, headdim) and the others fit to it."""
    check_floating("x", x)
    if x.ndim != 4 or x.shape[1] == 0:
        raise InvalidInput(
            f"x must be (batch, time, heads, headdim), at least 1 position long, got shape {tuple(x.shape)}"
        )
    batch, time, heads, _ = x.shape
    check_floating("B", B)
    states = (batch, time, B.shape[-1] if B.ndim else 1)
    fitting = {"dt": (dt, (batch, time, heads)), "A": (A, (heads,)), "B": (B, states), "C": (C, states)}
    for name, (tensor, shape) in (fitting if D is None else fitting | {"D": (D, (heads,))}).items():
        check_floating(name, tensor)
        if tensor.shape != shape:
            raise InvalidInput(f"{name} must have shape {shape}, got {tuple(tensor.shape)}")


def check_apart(name: str, first: nn.Module, second: nn.Module) -> None:
    """Raise ``InvalidInput`` where two modules that ``name`` should have built are one and the same."""
    if first is second:
        kind = type(first).__name__
        raise InvalidInput(f"{name} must build 2 modules, got the same {kind} twice; give what builds a new one")

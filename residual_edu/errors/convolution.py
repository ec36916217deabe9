"""Checks of long convolutions: their axes, their kernels, and who may hear whom."""

from collections.abc import Sequence
from typing import TypeVar

from torch import Tensor, nn

from residual_edu.errors.invalid_input import InvalidInput
from residual_edu.errors.space import check_shape
from residual_edu.errors.tensors import check_width

Kind = TypeVar("Kind", bound=nn.Module)


def check_one_per_axis(name: str, values: Sequence[object], axes: int) -> None:
    """Raise ``InvalidInput`` unless there are as many ``values`` as space axes."""
    if len(values) != axes:
        raise InvalidInput(
            f"{name} must be one for all, or a list with one for each of {axes} axes, got {list(values)}"
        )


def check_condition(name: str, x: Tensor, width: int) -> None:
    """Raise ``InvalidInput`` unless ``x`` is (batch, ``width``)."""
    check_width(name, x, width)
    if x.ndim != 2:
        raise InvalidInput(f"{name} must be (batch, channels), got shape {tuple(x.shape)}")


def check_kernel(kernel: Tensor, x: Tensor, circular: Sequence[bool]) -> None:
    """Raise ``InvalidInput`` unless ``kernel`` can be convolved with ``x``, wrapping along the ``circular`` axes."""
    check_shape("kernel", kernel, x.ndim - 2, x.shape[-1])
    if len(kernel) not in (1, len(x)):
        raise InvalidInput(f"kernel must hold 1 kernel for all, or one for each of {len(x)} samples, got {len(kernel)}")
    for taps, length, wraps in zip(kernel.shape[1:-1], x.shape[1:-1], circular, strict=True):
        if wraps and taps > length:
            raise InvalidInput(f"a circular kernel must be no longer than its axis, {length}, got {taps} taps")


def check_grid_type(grid_type: str | None, paddings: Sequence[str]) -> None:
    """Raise ``InvalidInput`` where a circular axis would get a kernel of twice its length."""
    if grid_type == "double" and "circular" in paddings:
        raise InvalidInput(
            "grid_type must be 'single' for a circular axis: 'double' gives 2 T - 1 taps, and round an axis of T "
            "there are T; None chooses for each axis"
        )


def check_causal_axes(axes: int, paddings: Sequence[str]) -> None:
    """Raise ``InvalidInput`` unless a causal convolution runs along one axis, zeros before its start."""
    if axes != 1:
        raise InvalidInput(f"is_causal needs an order in time, so data_dim must be 1, got {axes}")
    if paddings[0] != "zero":
        raise InvalidInput(
            f"is_causal needs fft_padding 'zero': round a circle the future is the past, got {paddings[0]!r}"
        )


def check_kind(name: str, module: nn.Module, kind: type[Kind]) -> Kind:
    """Return ``module``, or raise ``InvalidInput`` unless it is of that ``kind``."""
    if not isinstance(module, kind):
        raise InvalidInput(f"{name} must build a {kind.__name__}, got {type(module).__name__}")
    return module


def check_short_convolution(module: nn.Module) -> nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Identity:
    """Return ``module``, or raise ``InvalidInput`` unless it is a convolution of torch's or ``nn.Identity``."""
    if not isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Identity):
        kind = type(module).__name__
        raise InvalidInput(f"short_conv must be an nn.Conv1d, 2d, 3d, a CausalConv1D or nn.Identity, got {kind}")
    return module


def check_hears_no_future(name: str, module: nn.Module, hears: bool) -> None:
    """Raise ``InvalidInput`` where ``module`` ``hears`` later positions beside a causal convolution."""
    if hears:
        kind = type(module).__name__
        raise InvalidInput(f"{name}, a {kind}, hears later positions, but global_conv is causal; use a causal one")


def check_short_channels(convolution: nn.Conv1d | nn.Conv2d | nn.Conv3d, x: Tensor) -> None:
    """Raise ``InvalidInput`` unless ``convolution`` takes and gives the channels of ``x``, and has as many axes."""
    axes, channels = len(convolution.kernel_size), (convolution.in_channels, convolution.out_channels)
    if channels != (x.shape[-1], x.shape[-1]):
        raise InvalidInput(
            f"short_conv must have {x.shape[-1]} channels in and out (query, key, value), got {channels}"
        )
    if axes != x.ndim - 2:
        raise InvalidInput(f"short_conv must have as many axes as the signal, {x.ndim - 2}, got {axes}")


def check_short_kept(before: Tensor, after: Tensor) -> None:
    """Raise ``InvalidInput`` unless there are as many positions ``after`` the short convolution as ``before`` it."""
    if before.shape != after.shape:
        lengths, kept = tuple(before.shape[1:-1]), tuple(after.shape[1:-1])
        raise InvalidInput(f"short_conv must keep all positions, {lengths}, got {kept}; pad it, stride 1")

r"""The long convolution: a kernel as long as the signal, applied by the fast Fourier transform in T log T steps.

.. math:: y_i = \sum_j k_{i - j + c} \, x_j, \qquad \hat y_f = \hat k_f \, \hat x_f

c is the index of the tap at lag 0: the middle one, or the first one where the convolution is causal. The transform
treats a signal as periodic, so that its end wraps around to its start. Zeros are appended until it cannot.

Cooley & Tukey, 1965, https://doi.org/10.1090/S0025-5718-1965-0178586-1
Romero, Kuzina, Bekkers, Tomczak & Hoogendoorn, 2022, https://arxiv.org/abs/2102.02611
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from residual_edu.mixers.real_fft import real_fft
from residual_edu.old_errors import (
    InvalidInput,
    check_axes,
    check_batch,
    check_choice,
    check_device,
    check_not_empty,
    check_one_per_axis,
    check_sequence,
    check_signal,
    check_size,
)

PADDINGS = ("zero", "circular", "causal")
Padding = str | Sequence[str]


def convolution_matrix(
    kernel: Float[Tensor, "*batch taps"], length: int, padding: str = "zero"
) -> Float[Tensor, "*batch {length} {length}"]:
    """Return the matrix of a convolution along one axis: row i, column j holds the tap k[i - j + c], or 0.

    The product with it is the definition of the convolution; it takes length squared steps.

    Raises:
        InvalidInput: for a length below 1, an unknown padding, no taps, or more than ``length`` on a circular axis.
    """
    check_size("length", length)
    check_choice("padding", padding, PADDINGS)
    check_axes("kernel", kernel, "taps")
    check_not_empty("kernel", kernel)
    check_circle(kernel.shape[-1], length, padding)
    position = torch.arange(length, device=kernel.device)
    tap = position[:, None] - position + centre(kernel.shape[-1], padding)
    if padding == "circular":
        tap = tap % length
    within = (tap >= 0) & (tap < kernel.shape[-1])
    return kernel[..., tap.clamp(0, kernel.shape[-1] - 1)].where(within, 0)


def long_convolution(
    x: Float[Tensor, "batch *space channels"],
    kernel: Float[Tensor, "#batch *taps channels"],
    padding: Padding = "zero",
) -> Float[Tensor, "batch *space channels"]:
    r"""Convolve each channel of ``x`` with its own kernel along 1 to 3 axes, by fast Fourier transform.

    Args:
        x: the signal; computed in float32 or better, the result has its dtype.
        kernel: taps for all samples, or one set for each.
        padding: the signal beyond its ends, for all axes or a list with one for each: ``"zero"``, ``"circular"`` (it
            repeats), or ``"causal"``, zeros with the first tap at lag 0, so that y_i depends on x_j for j <= i only.

    Raises:
        InvalidInput: for an unknown padding, a signal without positions, or a kernel that does not fit ``x``.
    """
    check_axes("x", x, "batch", "position", "channels")
    check_signal("x", x, x.shape[-1])
    paddings = padding_of_each_axis("padding", padding, x.ndim - 2)
    check_kernel(kernel, x, paddings)
    space, taps = x.shape[1:-1], kernel.shape[1:-1]
    wide = torch.promote_types(
        torch.promote_types(x.dtype, kernel.dtype), torch.float32
    )  # the CPU has no 16-bit FFT
    signal, kernel = (
        z.to(wide).movedim(-1, 1).contiguous() for z in (x, kernel)
    )  # batch, channel, *space: fast rows
    sizes = [fft_size(*each) for each in zip(space, taps, paddings, strict=True)]
    for axis, (size, one) in enumerate(zip(sizes, paddings, strict=True), start=2):
        kernel = pad_and_roll(kernel, axis, size, one)
    spectrum = real_fft(signal, sizes) * real_fft(kernel, sizes)
    y = torch.fft.irfftn(spectrum, s=sizes)[(..., *map(slice, space))]
    return y.movedim(1, -1).type_as(x)


def fft_size(length: int, taps: int, padding: str) -> int:
    """Return the length of the transform: without circular padding, so long that no tap wraps around to other values.

    That takes as many zeros as there are taps on the longer side of lag 0, not all of the kernel's.
    """
    if padding == "circular":
        return length
    middle = centre(taps, padding)
    return next_fast_len(length + max(middle, taps - 1 - middle))


def next_fast_len(least: int) -> int:
    """Return the first length from ``least`` on with no prime factor above 5: an FFT is fastest at such lengths."""
    # Such a number is 2^a 3^b 5^c. Below 2^64 no exponent reaches 64, so they are the numbers that divide 30^64.
    while 30**64 % least:
        least += 1
    return least


def centre(taps: int, padding: str) -> int:
    """Return the index of the tap at lag 0."""
    return 0 if padding == "causal" else (taps - 1) // 2


def padding_of_each_axis(
    name: str, padding: Padding, axes: int, choices: Sequence[str] = PADDINGS
) -> list[str]:
    """Return one padding for each of ``axes``, or raise ``InvalidInput`` unless each is among ``choices``."""
    paddings = [padding] * axes if isinstance(padding, str) else padding
    check_sequence(name, paddings)
    check_one_per_axis(name, paddings, axes)
    for one in paddings:
        check_choice(name, one, choices)
    return list(paddings)


def pad_and_roll(kernel: Tensor, axis: int, size: int, padding: str) -> Tensor:
    """Pad ``axis`` with zeros to ``size`` and roll it so that the tap of lag 0 is first, those of negative lag last."""
    middle, taps = centre(kernel.shape[axis], padding), kernel.shape[axis]
    padded = functional.pad(kernel.movedim(axis, -1), (0, size - taps)).movedim(
        -1, axis
    )
    return padded.roll(-middle, axis) if middle else padded


def check_kernel(kernel: Tensor, x: Tensor, paddings: Sequence[str]) -> None:
    """Raise ``InvalidInput`` unless ``kernel`` has the axes and channels of ``x``, and fits its circular axes."""
    check_signal("kernel", kernel, x.shape[-1], x.ndim - 2)
    check_batch("kernel", kernel, x.shape[0])
    check_device("kernel", kernel, x)
    for taps, length, padding in zip(
        kernel.shape[1:-1], x.shape[1:-1], paddings, strict=True
    ):
        check_circle(taps, length, padding)


def check_circle(taps: int, length: int, padding: str) -> None:
    """Raise ``InvalidInput`` where a circular axis of ``length`` has more ``taps`` than lags."""
    if padding == "circular" and taps > length:
        raise InvalidInput(
            f"kernel must have at most {length} taps on a circular axis of {length}, got {taps}"
        )

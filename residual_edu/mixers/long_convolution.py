r"""The long convolution: a kernel as long as the signal, applied through Fourier's back door in T log T steps.

.. math:: y_i = \sum_j k_{i - j + c} \, x_j, \qquad \hat y_f = \hat k_f \, \hat x_f

c is the tap that stands at lag 0: the middle one, or the first one where the convolution is causal. A Fourier
transform knows circles alone, so that a line is laid on a circle long enough for its ends never to meet.

Cooley & Tukey, 1965; Romero, Kuzina, Bekkers, Tomczak & Hoogendoorn, 2022, https://arxiv.org/abs/2102.02611
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from residual_edu.errors import (
    check_choice,
    check_kernel,
    check_one_per_axis,
    check_size,
    check_some_positions,
    check_space,
)
from residual_edu.mixers.real_fft import real_fft

PADDINGS = ("zero", "circular", "causal")
Padding = str | Sequence[str]


def convolution_matrix(
    kernel: Float[Tensor, "*batch taps"], length: int, padding: str = "zero"
) -> Float[Tensor, "*batch {length} {length}"]:
    """Return the matrix of a convolution along one axis: row i, column j holds the tap k[i - j + c], or 0.

    Multiplying by it is the definition, in length squared steps.

    Raises:
        InvalidInput: for a length below 1 or an unknown padding.
    """
    check_size("length", length)
    check_choice("padding", padding, PADDINGS)
    position = torch.arange(length, device=kernel.device)
    tap = position[:, None] - position + centre(kernel.shape[-1], padding)
    if padding == "circular":
        tap = tap % length
    within = (tap >= 0) & (tap < kernel.shape[-1])
    return kernel[..., tap.clamp(0, kernel.shape[-1] - 1)].where(within, 0)


def long_convolution(
    x: Float[Tensor, "batch *space channels"], kernel: Float[Tensor, "#batch *taps channels"], padding: Padding = "zero"
) -> Float[Tensor, "batch *space channels"]:
    r"""Convolve each channel of ``x`` with its own kernel along 1 to 3 axes, by fast Fourier transform.

    Args:
        x: the signal; computed in float32 or better, the result has its dtype.
        kernel: taps for all samples, or one set for each.
        padding: what lies beyond the ends, for all axes or a list with one for each: ``"zero"``, ``"circular"``
            (the other end), or ``"causal"``, zero with the first tap at lag 0: j <= i alone is heard.

    Raises:
        InvalidInput: for an unknown padding, or a kernel that does not fit ``x``.
    """
    paddings = padding_of_each_axis("padding", padding, x.ndim - 2)
    check_space("x", x, x.shape[-1])
    check_some_positions("x", x)
    check_kernel(kernel, x, [one == "circular" for one in paddings])
    space, taps = x.shape[1:-1], kernel.shape[1:-1]
    wide = torch.promote_types(torch.promote_types(x.dtype, kernel.dtype), torch.float32)
    signal, kernel = (each.to(wide).movedim(-1, 1).contiguous() for each in (x, kernel))  # transforms run along rows
    sizes = [circle_size(*each) for each in zip(space, taps, paddings, strict=True)]
    for axis, (size, one) in enumerate(zip(sizes, paddings, strict=True), start=2):
        kernel = laid_on_circle(kernel, axis, size, one)
    spectrum = real_fft(signal, sizes) * real_fft(kernel, sizes)
    y = torch.fft.irfftn(spectrum, s=sizes)[(..., *map(slice, space))]
    return y.movedim(1, -1).type_as(x)


def circle_size(length: int, taps: int, padding: str) -> int:
    """Return how many points a transform needs: for a line, so many that no tap reaches round to the other end."""
    if padding == "circular":
        return length
    middle = centre(taps, padding)
    return fast_length(length + max(middle, taps - 1 - middle))


def fast_length(least: int) -> int:
    """Return the first length from ``least`` on without a prime factor above 5, that is, a divisor of a power of 30."""
    while 30**64 % least:
        least += 1
    return least


def centre(taps: int, padding: str) -> int:
    """Return the tap that stands at lag 0."""
    return 0 if padding == "causal" else (taps - 1) // 2


def padding_of_each_axis(name: str, padding: Padding, axes: int, choices: Sequence[str] = PADDINGS) -> list[str]:
    """Return one padding for each of ``axes``, or raise ``InvalidInput`` unless each is among ``choices``."""
    paddings = [padding] * axes if isinstance(padding, str) else list(padding)
    check_one_per_axis(name, paddings, axes)
    for one in paddings:
        check_choice(name, one, choices)
    return paddings


def laid_on_circle(kernel: Tensor, axis: int, size: int, padding: str) -> Tensor:
    """Pad ``axis`` to ``size`` and turn it until the tap of lag 0 is the first, those of negative lag the last."""
    middle, taps = centre(kernel.shape[axis], padding), kernel.shape[axis]
    padded = functional.pad(kernel.movedim(axis, -1), (0, size - taps)).movedim(-1, axis)
    return padded.roll(-middle, axis) if middle else padded

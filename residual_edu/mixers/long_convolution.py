r"""The long convolution: a kernel as long as the signal, applied in T log T steps.

.. math::
    y_i = \sum_j k_{i - j + c} \, x_j, \qquad \hat y_f = \hat k_f \, \hat x_f

c is the index of the tap at lag 0: the middle one, or in a causal convolution the
first. The Fourier transform treats a signal as periodic, so that its end wraps around
to its start. Zeros are appended until it cannot.
Cooley & Tukey, 1965, https://doi.org/10.1090/S0025-5718-1965-0178586-1
Romero et al., 2022, https://arxiv.org/abs/2102.02611
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from residual_edu.errors import InvalidInput, check_choice, check_shape
from residual_edu.mixers.real_fft import real_fft
from residual_edu.parts.flop_count import Signal

PADDINGS = ("zero", "circular", "causal")
Padding = str | Sequence[str]
Taps = Float[Tensor, "#batch *taps channels"]


def convolution_matrix(
    kernel: Float[Tensor, "*batch taps"], length: int, padding: str = "zero"
) -> Float[Tensor, "*batch {length} {length}"]:
    """Return a convolution's matrix: row i, column j holds k[i - j + c], or 0."""
    check_choice("padding", padding, PADDINGS)
    check_circle(length, kernel.shape[-1], padding)
    position = torch.arange(length, device=kernel.device)
    tap = position[:, None] - position + centre(kernel.shape[-1], padding)
    if padding == "circular":
        tap = tap % length
    within = (tap >= 0) & (tap < kernel.shape[-1])
    return kernel[..., tap.clamp(0, kernel.shape[-1] - 1)].where(within, 0)


def long_convolution(x: Signal, kernel: Taps, padding: Padding = "zero") -> Signal:
    r"""Convolve each channel of ``x`` with its own kernel, by Fourier transform.

    Its rounding reaches every position of a channel, so that a large number changes
    causal outputs before it: by up to 2 eps (float32: 2.4e-7) times the Euclidean
    lengths of channel and kernel. One that is not finite makes all of them NaN.

    Args:
        x: the signal; computed in float32 or better, the result has its dtype.
        kernel: the taps along each axis, one set for all samples or one for each.
        padding: the signal beyond its ends, for all axes or a list with one for each:
            ``"zero"``, ``"circular"`` (it repeats), or ``"causal"``, zeros with the
            first tap at lag 0, so that y_i depends on x_j for j <= i only.
    """
    paddings = padding_of_each_axis("padding", padding, x.ndim - 2)
    check_shape("x", x, "...", "channels")  # the result would be rounded to integers
    samples = 1 if kernel.shape[0] == 1 else x.shape[0]
    check_shape("kernel", kernel, samples, *["taps"] * (x.ndim - 2), x.shape[-1])
    space, taps = x.shape[1:-1], kernel.shape[1:-1]
    both = torch.promote_types(x.dtype, kernel.dtype)
    wide = torch.promote_types(both, torch.float32)  # the CPU has no 16-bit FFT
    # batch, channels, *space: a transform runs along rows of neighbours in memory
    signal, kernel = (z.to(wide).movedim(-1, 1).contiguous() for z in (x, kernel))
    sizes = [fft_size(*each) for each in zip(space, taps, paddings, strict=True)]
    for axis, (size, each) in enumerate(zip(sizes, paddings, strict=True), start=2):
        kernel = pad_and_roll(kernel, axis, size, each)
    spectrum = real_fft(signal, sizes) * real_fft(kernel, sizes)
    y = torch.fft.irfftn(spectrum, s=sizes)[(..., *map(slice, space))]
    return y.movedim(1, -1).type_as(x)


def centre(taps: int, padding: str) -> int:
    """Return the index of the tap at lag 0."""
    return 0 if padding == "causal" else (taps - 1) // 2


def fft_size(length: int, taps: int, padding: str) -> int:
    """Return the length of the transform, so long that no tap meets the other end."""
    check_circle(length, taps, padding)
    if padding == "circular":
        return length
    middle = centre(taps, padding)  # zeros for the longer side of lag 0
    return next_fast_len(length + max(middle, taps - 1 - middle))


def next_fast_len(least: int) -> int:
    """Return the first length from ``least`` on without a prime factor above 5."""
    # An FFT is fastest at 2^a 3^b 5^c. Below 2^64 these are the divisors of 30^64.
    while 30**64 % least:
        least += 1
    return least


def pad_and_roll(kernel: Tensor, axis: int, size: int, padding: str) -> Tensor:
    """Pad ``axis`` to ``size``, the tap of lag 0 first, those of negative lag last."""
    middle, zeros = centre(kernel.shape[axis], padding), size - kernel.shape[axis]
    padded = functional.pad(kernel.movedim(axis, -1), (0, zeros)).movedim(-1, axis)
    return padded.roll(-middle, axis) if middle else padded


def padding_of_each_axis(
    name: str, padding: Padding, axes: int, choices: Sequence[str] = PADDINGS
) -> list[str]:
    """Return one padding for each of ``axes``, from ``choices``."""
    paddings = [padding] * axes if isinstance(padding, str) else list(padding)
    for each in paddings:
        check_choice(name, each, choices)
    return paddings


def check_circle(length: int, taps: int, padding: str) -> None:
    """Raise ``InvalidInput`` where a circular axis has more ``taps`` than lags."""
    if padding == "circular" and taps > length:
        raise InvalidInput(f"a circular axis has {length} lags, got {taps} taps")

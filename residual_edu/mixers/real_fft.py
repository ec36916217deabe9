r"""The Fourier transform of real signals, with a gradient that is a real transform too.

.. math:: \hat x_f = \sum_t x_t\, e^{-2 \pi i f t / n}, \qquad
    \bar x_t = \mathrm{Re} \sum_{f=0}^{n/2} \bar{\hat x}_f\, e^{2 \pi i f t / n}

f runs over frequencies, t over n positions; a bar marks the gradient of the loss.
torch's own gradient of ``rfft`` is a complex transform of n points, half of them zeros.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Complex, Float
from torch import Tensor


def real_fft(
    x: Float[Tensor, "*batch"], sizes: Sequence[int]
) -> Complex[Tensor, "*spectrum"]:
    """Return ``torch.fft.rfftn(x, s=sizes)``: the last axes of ``x``, zero-padded."""
    if torch.compiler.is_compiling():  # the compiler derives its own gradient
        return torch.fft.rfftn(x, s=sizes)
    spectrum = RealFFT.apply(x, sizes[-1])
    others = tuple(range(-len(sizes), -1))
    return torch.fft.fftn(spectrum, s=sizes[:-1], dim=others) if others else spectrum


class RealFFT(torch.autograd.Function):
    """``torch.fft.rfft`` of the last axis, padded with zeros to n points."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, n: int) -> Tensor:
        """Return the n // 2 + 1 frequencies of the last axis of ``x``."""
        return torch.fft.rfft(x, n=n)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int], output: Tensor) -> None:
        """Keep both lengths for the backward pass."""
        ctx.length, ctx.n = inputs[0].shape[-1], inputs[1]

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        """Return the change of the spectrum: the transform is linear."""
        return torch.fft.rfft(tangent, n=ctx.n)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Return the gradient with respect to ``x``: the equation's sum over f."""
        f = torch.arange(gradient.shape[-1], device=gradient.device)
        # irfft adds the negative frequencies: all count twice, bar the first and n / 2.
        once = torch.where((f == 0) | (2 * f == ctx.n), 1.0, 0.5)
        x_bar = torch.fft.irfft(gradient * once, n=ctx.n, norm="forward")
        return x_bar[..., : ctx.length], None

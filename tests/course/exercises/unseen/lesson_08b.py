"""Answers to the exercises of lesson 08b that no list of mistakes holds."""

import torch
from torch import nn
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong
from residual_course.exercises.mended_convolution import Handed, Mended, changed
from residual_edu import long_convolution

wrong("causal_convolution", "taps that do not learn")(
    lambda x, kernel: torch.fft.irfft(
        torch.fft.rfft(x, n := len(x) + len(kernel)) * torch.fft.rfft(kernel.detach(), n), n
    )[: len(x)]
)
right("causal_convolution", "a transform with enough zeros")(
    lambda x, kernel: torch.fft.irfft(torch.fft.rfft(x, n := len(x) + len(kernel)) * torch.fft.rfft(kernel, n), n)[
        : len(x)
    ]
)
right("causal_convolution", "a Toeplitz matrix")(
    lambda x, kernel: torch.stack(
        [sum(kernel[m] * x[i - m] for m in range(min(i + 1, len(kernel)))) for i in range(len(x))]
    )
)
right("causal_convolution", "torch's conv1d on a padded signal")(
    lambda x, kernel: F.conv1d(F.pad(x, (len(kernel) - 1, 0))[None, None], kernel.flip(0)[None, None])[0, 0]
)
wrong("causal_convolution", "Python's negative indices")(
    lambda x, kernel: torch.stack(
        [sum(kernel[m] * x[(i - m) % len(x)] for m in range(len(kernel))) for i in range(len(x))]
    )
)


@right("causal_convolution", "two loops")
def _(x, kernel):
    y = torch.zeros(len(x))
    for i in range(len(x)):
        for m in range(len(kernel)):
            if i >= m:
                y[i] += kernel[m] * x[i - m]
    return y


@right("causal_convolution", "a gathered matrix")
def _(x, kernel):
    lag = torch.arange(len(x))[:, None] - torch.arange(len(x))
    inside = (lag >= 0) & (lag < len(kernel))
    return kernel[lag.clamp(0, len(kernel) - 1)].where(inside, 0) @ x


@right("ssm_kernel", "a running product")
def _(A, B, C, taps):
    rows = torch.cat([torch.ones_like(A)[None], A.expand(taps - 1, -1)]).cumprod(0)
    return (rows @ (C * B)).real


@right("ssm_kernel", "one tap at a time")
def _(A, B, C, taps):
    return torch.stack([(C * A**m * B).sum().real for m in range(taps)])


right("ssm_kernel", "a sum with einsum")(
    lambda A, B, C, taps: torch.einsum("n,mn,n->m", C, A ** torch.arange(taps)[:, None], B).real
)
right("ssm_kernel", "states in rows")(
    lambda A, B, C, taps: ((C * B)[:, None] * A[:, None] ** torch.arange(taps)).sum(0).real
)
right("ssm_kernel", "a diagonal matrix and its powers")(
    lambda A, B, C, taps: torch.stack([(C @ torch.linalg.matrix_power(torch.diag(A), m) @ B).real for m in range(taps)])
)
right("ssm_kernel", "exponentials of logarithms")(
    lambda A, B, C, taps: ((A.log() * torch.arange(taps)[:, None]).exp() * C * B).sum(-1).real
)
wrong("ssm_kernel", "one tap too many")(
    lambda A, B, C, taps: (A ** torch.arange(taps + 1)[:, None] * C * B).sum(-1).real
)
wrong("ssm_kernel", "states that do not learn")(
    lambda A, B, C, taps: (A.detach() ** torch.arange(taps)[:, None] * C * B).sum(-1).real
)
wrong("ssm_kernel", "a mean over the states")(
    lambda A, B, C, taps: (A ** torch.arange(taps)[:, None] * C * B).mean(-1).real
)


@right("mended_convolution", "positions made once, and cut")
class CutToLength(Mended):
    def positions(self, length):
        return (torch.arange(256) / 256)[:length, None]


@right("mended_convolution", "one lag a step of 1 / (reach - 1)")
class FromZeroToOne(Mended):
    def positions(self, length):
        return torch.linspace(0, 1, 256)[:length, None]


@right("mended_convolution", "a matrix")
class ByMatrix(Mended):
    def convolve(self, x, taps):
        lag = torch.arange(len(x))[:, None] - torch.arange(len(x))
        return taps[lag.clamp(min=0)].where(lag >= 0, 0) @ x


@right("mended_convolution", "the library's convolution")
class ByLibrary(Mended):
    def convolve(self, x, taps):
        return long_convolution(x[None, :, None], taps[None, :, None], "causal")[0, :, 0]


@right("mended_convolution", "torch's conv1d")
class ByConv1d(Mended):
    def convolve(self, x, taps):
        padded = F.pad(x, (len(taps) - 1, 0))
        return F.conv1d(padded[None, None], taps.flip(0)[None, None])[0, 0]


@right("mended_convolution", "a stored kernel")
class ByHeart(nn.Module):
    def __init__(self):
        super().__init__()
        self.stored = nn.Parameter(torch.linspace(1, 0.1, 64))

    def forward(self, x):
        return ByMatrix.convolve(self, x, self.stored)


@wrong("mended_convolution", "zeros in front of the signal alone")
class InFront(changed(stretched=False)):
    def convolve(self, x, taps):
        padded = F.pad(x, (len(x), 0))
        return torch.fft.irfft(torch.fft.rfft(padded) * torch.fft.rfft(taps, len(padded)), len(padded))[: len(x)]


@wrong("mended_convolution", "a kernel whose mean depends on the length")
class Averaged(Mended):
    def taps(self, length):
        return super().taps(length) / length


@wrong("mended_convolution", "the handed one in evaluation mode")
class Rested(Handed):
    def forward(self, x):
        return super().forward(x).detach()

"""Answers to the exercises of lesson 08b that no list of mistakes holds."""

import torch
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong
from residual_course.exercises.mended_convolution import Handed, Mended, changed

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
wrong("causal_convolution", "Python's negative indices")(
    lambda x, kernel: torch.stack(
        [sum(kernel[m] * x[(i - m) % len(x)] for m in range(len(kernel))) for i in range(len(x))]
    )
)


right("ssm_kernel", "a diagonal matrix and its powers")(
    lambda A, B, C, taps: torch.stack([(C @ torch.linalg.matrix_power(torch.diag(A), m) @ B).real for m in range(taps)])
)
right("ssm_kernel", "exponentials of logarithms")(
    lambda A, B, C, taps: ((A.log() * torch.arange(taps)[:, None]).exp() * C * B).sum(-1).real
)
wrong("ssm_kernel", "states that do not learn")(
    lambda A, B, C, taps: (A.detach() ** torch.arange(taps)[:, None] * C * B).sum(-1).real
)
wrong("ssm_kernel", "a mean over the states")(
    lambda A, B, C, taps: (A ** torch.arange(taps)[:, None] * C * B).mean(-1).real
)


@right("mended_convolution", "one lag a step of 1 / (reach - 1)")
class FromZeroToOne(Mended):
    def positions(self, length):
        return torch.linspace(0, 1, 256)[:length, None]


@right("mended_convolution", "a matrix")
class ByMatrix(Mended):
    def convolve(self, x, taps):
        lag = torch.arange(len(x))[:, None] - torch.arange(len(x))
        return taps[lag.clamp(min=0)].where(lag >= 0, 0) @ x


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

"""Answers to the exercises of lesson 08b that no list of mistakes holds."""

import torch
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong
from residual_course.exercises.mended_convolution import Handed, Mended


def transformed(x, kernel):
    """Between zeros enough."""
    n = len(x) + len(kernel)
    return torch.fft.irfft(torch.fft.rfft(x, n) * torch.fft.rfft(kernel, n), n)[: len(x)]


right("causal_convolution", "a transform with enough zeros")(transformed)
right("causal_convolution", "torch's own, behind zeros")(
    lambda x, kernel: F.conv1d(F.pad(x, (len(kernel) - 1, 0))[None, None], kernel.flip(0)[None, None])[0, 0]
)
right("causal_convolution", "two loops")(
    lambda x, k: torch.stack([sum(k[m] * x[i - m] for m in range(min(i + 1, len(k)))) for i in range(len(x))])
)
wrong("causal_convolution", "taps that do not learn")(lambda x, kernel: transformed(x, kernel.detach()))
wrong("causal_convolution", "Python's negative indices")(
    lambda x, k: torch.stack([sum(k[m] * x[(i - m) % len(x)] for m in range(len(k))) for i in range(len(x))])
)

right("ssm_kernel", "a diagonal matrix and its powers")(
    lambda A, B, C, taps: torch.stack([(C @ torch.linalg.matrix_power(torch.diag(A), m) @ B).real for m in range(taps)])
)
right("ssm_kernel", "exponentials of logarithms")(
    lambda A, B, C, taps: ((A.log() * torch.arange(taps)[:, None]).exp() * C * B).sum(-1).real
)
right("ssm_kernel", "lag by lag")(lambda A, B, C, taps: torch.stack([(C * B * A**m).sum().real for m in range(taps)]))
wrong("ssm_kernel", "states that do not learn")(
    lambda A, B, C, taps: (A.detach() ** torch.arange(taps)[:, None] * C * B).sum(-1).real
)
wrong("ssm_kernel", "a mean over the states")(
    lambda A, B, C, taps: (A ** torch.arange(taps)[:, None] * C * B).mean(-1).real
)


def network(base=Mended, **methods):
    return type("Network", (base,), methods)


def by_matrix(self, x, taps):
    lag = torch.arange(len(x))[:, None] - torch.arange(len(x))
    return taps[lag.clamp(min=0)].where(lag >= 0, 0) @ x


def behind_zeros(self, x, taps):
    padded = F.pad(x, (len(x), 0))
    return torch.fft.irfft(torch.fft.rfft(padded) * torch.fft.rfft(taps, len(padded)), len(padded))[: len(x)]


right("mended_convolution", "one lag a step of 1 / (reach - 1)")(
    network(positions=lambda self, length: torch.linspace(0, 1, 256)[:length, None])
)
right("mended_convolution", "a matrix")(network(convolve=by_matrix))
right("mended_convolution", "a transform with enough zeros")(
    network(convolve=lambda self, x, taps: transformed(x, taps))
)
wrong("mended_convolution", "zeros in front of the signal alone")(
    network(Handed, stretched=False, convolve=behind_zeros)
)
wrong("mended_convolution", "a kernel whose mean depends on the length")(
    network(taps=lambda self, length: Mended.taps(self, length) / length)
)
wrong("mended_convolution", "the handed one in evaluation mode")(
    network(Handed, forward=lambda self, x: Handed.forward(self, x).detach())
)

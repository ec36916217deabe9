"""Answers to the exercises of lesson 08b that no list of mistakes holds."""

from functools import partial
from itertools import accumulate
from operator import mul

import torch
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong
from residual_course.exercises.mended_convolution import Handed, Mended
from residual_course.exercises.ssm_kernel import kernel

conv, ssm = partial(right, "causal_convolution"), partial(right, "ssm_kernel")


def transformed(x, kernel):
    """Between zeros enough."""
    n = len(x) + len(kernel)
    return torch.fft.irfft(torch.fft.rfft(x, n) * torch.fft.rfft(kernel, n), n)[: len(x)]


def filled(numbers):
    """In float32, one by one."""
    y = torch.zeros(len(numbers))
    for i, number in enumerate(numbers):
        y[i] += number
    return y


conv("a transform with enough zeros")(transformed)
conv("unfolded")(lambda x, k: F.pad(x, (len(k) - 1, 0)).unfold(0, len(k), 1) @ k.flip(0))
conv("the start of a transposed one")(lambda x, k: F.conv_transpose1d(x[None], k[None, None])[0, : len(x)])
conv("torch's own")(lambda x, k: F.conv1d(F.pad(x, (len(k) - 1, 0))[None], k.flip(0)[None, None])[0])
conv("diagonals")(lambda x, k: torch.stack([k.flip(0).outer(x).diagonal(i + 1 - len(k)).sum() for i in range(len(x))]))
conv("loops")(lambda x, k: filled([sum(k[m] * x[i - m] for m in range(min(i + 1, len(k)))) for i in range(len(x))]))
wrong("causal_convolution", "taps that do not learn")(lambda x, kernel: transformed(x, kernel.detach()))
wrong("causal_convolution", "Python's negative indices")(lambda x, k: sum(k[m] * x.roll(m) for m in range(len(k))))

ssm("a matrix")(lambda A, B, C, n: torch.stack([(C @ A.diag().matrix_power(m) @ B).real for m in range(n)]))
ssm("logarithms")(lambda A, B, C, n: ((A.log() * torch.arange(n)[:, None]).exp() * C * B).sum(-1).real)
ssm("lag by lag")(lambda A, B, C, n: torch.stack([(C * B * A**m).sum().real for m in range(n)]))
ssm("products so far")(lambda A, B, C, n: torch.stack([B] + [A] * (n - 1)).cumprod(0).mul(C).real.sum(1))
ssm("into float32")(lambda A, B, C, n: filled([(C @ S).real for S in accumulate([B] + [A] * (n - 1), mul)]))
ssm("angles")(
    lambda A, B, C, n: (torch.polar(A.abs() ** (m := torch.arange(n)[:, None]), m * A.angle()) @ (B * C)).real
)
wrong("ssm_kernel", "states that do not learn")(lambda A, B, C, taps: kernel(A.detach(), B, C, taps))
wrong("ssm_kernel", "a mean over the states")(lambda A, B, C, taps: kernel(A, B, C, taps) / len(A))


def network(what, judged=right, base=Mended, **methods):
    judged("mended_convolution", what)(type("Network", (base,), methods))


def behind_zeros(self, x, taps):
    return Handed.convolve(self, F.pad(x, (len(x), 0)), taps)[: len(x)]


network("one lag a step of 1 / (reach - 1)", positions=lambda self, length: torch.linspace(0, 1, 256)[:length, None])
network("by output", convolve=lambda self, x, k: torch.stack([k[: i + 1].flip(0) @ x[: i + 1] for i in range(len(x))]))
network("a transform with enough zeros", convolve=lambda self, x, taps: transformed(x, taps))
network("a table of lags", lags=torch.arange(256)[:, None] / 256, positions=lambda self, length: self.lags[:length])
network("always all taps", taps=lambda self, length: Mended.taps(self, self.reach)[:length])
network("float64, and back", convolve=lambda self, x, k: transformed(x.double(), k.double()).float())
network("zeros in front of the signal alone", wrong, Handed, stretched=False, convolve=behind_zeros)
network(
    "a kernel kept from the first call", wrong, taps=lambda self, n: vars(self).setdefault("k", Mended.taps(self, n))
)
network("a kernel whose mean depends on the length", wrong, taps=lambda self, n: Mended.taps(self, n) / n)
network("the handed one without a gradient", wrong, Handed, forward=lambda self, x: Handed.forward(self, x).detach())

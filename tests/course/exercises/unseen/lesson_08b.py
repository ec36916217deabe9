"""Answers to the exercises of lesson 08b and its appendix that no list of mistakes holds."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.functional import silu

from residual_course.checking.tries import right, wrong
from residual_course.exercises.handed_convolution import MENDED, Handed, changed

wrong("causal_convolution", "taps that do not learn")(
    lambda x, kernel: torch.fft.irfft(
        torch.fft.rfft(x, n := len(x) + len(kernel)) * torch.fft.rfft(kernel.detach(), n), n
    )[: len(x)]
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


wrong("siren_taps", "a position too far")(
    lambda first, shift, hidden, last, lags, reach: (
        ((torch.linspace(0, lags / reach, lags + 1)[1:, None] * first + shift).sin() @ hidden.T).sin() @ last
    )
)
wrong("siren_taps", "read no further than its reach")(
    lambda first, shift, hidden, last, lags, reach: (
        (((torch.arange(lags).clamp(max=reach) / reach)[:, None] * first + shift).sin() @ hidden.T).sin() @ last
    )
)
right("siren_taps", "one position at a time")(
    lambda first, shift, hidden, last, lags, reach: torch.stack(
        [last @ (hidden @ (m / reach * first + shift).sin()).sin() for m in range(lags)]
    )
)
right("siren_taps", "layers of torch")(
    lambda first, shift, hidden, last, lags, reach: F.linear(
        F.linear(torch.outer(torch.arange(lags) / reach, first).add(shift).sin(), hidden).sin(), last[None]
    )[:, 0]
)
right("siren_taps", "positions from NumPy")(
    lambda first, shift, hidden, last, lags, reach: (
        ((torch.from_numpy(np.arange(lags) / reach)[:, None] * first + shift).sin() @ hidden.T).sin() @ last
    )
)


@wrong("hyena_gates", "in place on what convolve returned")
def _(query, key, value, convolve):
    out = convolve(query * silu(key))
    out *= silu(value)
    return out


wrong("hyena_gates", "a detached gate")(lambda q, k, v, convolve: convolve(q * silu(k)) * silu(v).detach())
right("hyena_gates", "sigmoids")(lambda q, k, v, convolve: convolve(q * k * k.sigmoid()) * v * v.sigmoid())
right("hyena_gates", "the paper's, in another order")(lambda q, k, v, convolve: convolve(v * k).mul(q))


Mended = changed(**MENDED)


@right("mended_convolution", "a kernel that is cut instead of read anew")
class CutToLength(Mended):
    def positions(self, lags):
        return torch.arange(128)[:lags] / 128


@right("mended_convolution", "a stored kernel, and a matrix")
class ByMatrix(Handed):
    def __init__(self):
        super().__init__()
        self.taps = nn.Parameter(torch.full((8, 128), 0.02))

    def forward(self, x):
        content, gate = self.enter(x).mT.chunk(2, dim=1)
        lag = torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])
        matrix = self.taps[:, lag.clamp(min=0)].where(lag >= 0, 0)
        return self.out((matrix @ (content * gate)[..., None])[..., 0].mT)[..., 0]


@right("mended_convolution", "a gate on either side")
class TwoGates(Mended):
    def __init__(self):
        super().__init__()
        self.behind = nn.Linear(2, 8)

    def forward(self, x):
        content, gate = self.enter(x).mT.chunk(2, dim=1)
        h = self.convolve(content * gate, self.kernel(self.positions(x.shape[1])))
        return self.out(h.mT * (1 + self.behind(x)))[..., 0]


@right("mended_convolution", "a running sum in the place of the kernel")
class Running(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.out = nn.Linear(2, 8), nn.Linear(2, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.out((self.a(x) * self.b(x)).cumsum(1) / 8)[..., 0]


@right("mended_convolution", "a ReLU before the convolution")
class Rectified(Mended):
    def forward(self, x):
        content, _ = self.enter(x).mT.chunk(2, dim=1)
        h = self.convolve(content.relu(), self.kernel(self.positions(x.shape[1])))
        return self.out(h.mT)[..., 0]


@right("mended_convolution", "written by hand, with nothing to learn")
class ByHand(nn.Module):
    def forward(self, x):
        return (x.sum(-1) - 1).relu().cumsum(1)


@wrong("mended_convolution", "right at the last position alone")
class AtTheEnd(ByHand):
    def forward(self, x):
        return super().forward(x) * (torch.arange(x.shape[1]) == 127)


@wrong("mended_convolution", "the future set to 0 in the outputs alone")
class Masked(changed(stretched=False, before=True)):
    def forward(self, x):
        return super().forward(x) * (torch.arange(x.shape[1]) >= 64)

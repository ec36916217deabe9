"""The network that lesson 08b hands over to be mended: three of its lines are wrong, one of them without a trace."""

from math import pi, sqrt
from typing import Any

import torch
from torch import Tensor, nn

WIDTH, REACH, OMEGA, HIDDEN = 8, 128, 1.0, 16


class Kernel(nn.Module):
    """A generated kernel of ``WIDTH`` channels; its first ``REACH`` lags stand at positions 0 to 1."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.hidden, self.last = nn.Linear(1, HIDDEN), nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, WIDTH)
        bounds = 2 * pi * OMEGA, sqrt(6 / HIDDEN), sqrt(6 / HIDDEN / REACH)
        for linear, bound in zip((self.first, self.hidden, self.last), bounds, strict=True):
            nn.init.uniform_(linear.weight, -bound, bound)
        nn.init.uniform_(self.first.bias, -pi, pi)

    def forward(self, positions: Tensor) -> Tensor:
        """Return the taps at some positions, (channels, lags)."""
        return self.last(self.hidden(self.first(positions[:, None]).sin()).sin()).mT


class Handed(nn.Module):
    """The network as it is handed over; its class attributes are what a mend changes."""

    stretched = True
    zeros = False
    before = False

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.kernel, self.out = nn.Linear(2, 2 * WIDTH), Kernel(), nn.Linear(WIDTH, 1)

    def positions(self, lags: int) -> Tensor:
        """Return where the kernel is read."""
        return torch.arange(lags) / (lags if self.stretched else REACH)

    def convolve(self, x: Tensor, taps: Tensor) -> Tensor:
        """Return the causal convolution along the last axis."""
        length = x.shape[-1]
        n = 2 * length if self.zeros else length
        return torch.fft.irfft(torch.fft.rfft(x, n) * torch.fft.rfft(taps, n), n)[..., :length]

    def forward(self, x: Tensor) -> Tensor:
        """Return an output at each position of x, (batch, positions, 2)."""
        content, gate = self.enter(x).mT.chunk(2, dim=1)
        taps = self.kernel(self.positions(x.shape[1]))
        h = self.convolve(content * gate if self.before else content, taps)
        h = h if self.before else h * gate
        return self.out(h.mT)[..., 0]


def changed(**values: Any) -> type[Handed]:
    """Return the network with other values of its attributes."""
    return type("Changed", (Handed,), values)


MENDED: dict[str, Any] = {"stretched": False, "zeros": True, "before": True}


class ByLoop(changed(**MENDED)):  # type: ignore[misc]
    """Mended with a loop over lags in the place of the transform."""

    def convolve(self, x: Tensor, taps: Tensor) -> Tensor:
        """Return the sum of shifted copies of x."""
        length = x.shape[-1]
        copies = [nn.functional.pad(x, (m, 0))[..., :length] * taps[:, m, None] for m in range(length)]
        return torch.stack(copies).sum(0)


class Cut(changed(**MENDED)):  # type: ignore[misc]
    """A kernel of which only the first 16 lags are used."""

    def convolve(self, x: Tensor, taps: Tensor) -> Tensor:
        """Return the convolution with a short kernel."""
        return super().convolve(x, taps * (torch.arange(taps.shape[-1]) < 16))


class Halved(changed(**MENDED)):  # type: ignore[misc]
    """Zeros for half of what wraps around."""

    def convolve(self, x: Tensor, taps: Tensor) -> Tensor:
        """Return a convolution on a circle of one and a half times the length."""
        length = x.shape[-1]
        n = length + length // 2
        return torch.fft.irfft(torch.fft.rfft(x, n) * torch.fft.rfft(taps, n), n)[..., :length]


class Backwards(changed(**MENDED)):  # type: ignore[misc]
    """A kernel that looks ahead."""

    def convolve(self, x: Tensor, taps: Tensor) -> Tensor:
        """Return the convolution with the future."""
        return super().convolve(x.flip(-1), taps).flip(-1)

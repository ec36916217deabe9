"""Answers to the exercises of lesson 07a that no list of mistakes holds."""

import numpy as np
import torch
from torch import nn

from residual_course.checking.tries import right, wrong
from residual_course.exercises.leaks import leaks
from residual_course.exercises.mended_forecast import ROW, WIDTH, changed


@right("leaks", "the whole derivative, as a tensor")
def _(net, x, position):
    grads = torch.autograd.functional.jacobian(lambda v: net(v)[0, position], x.detach())
    zero = torch.zeros(1).to(x)
    parts = grads[:, 0, position + 1 :], grads[:, 1:]
    return torch.stack([torch.cat([part.flatten(), zero]).abs().max() for part in parts])


@right("leaks", "backward on a copy, once for each output")
def _(net, x, position):
    found, copy = [0.0, 0.0], x.detach().clone().requires_grad_()
    for one in net(copy)[0, position]:
        (grad,) = torch.autograd.grad(one, copy, retain_graph=True)
        sizes = grad[0, position + 1 :].abs(), grad[1:].abs()
        found = [max([old, *new.flatten().tolist()]) for old, new in zip(found, sizes, strict=True)]
    return found


right("leaks", "as an array")(lambda net, x, i: np.array(leaks(net, x, i)))
wrong("leaks", "a sum of sizes")(
    lambda net, x, i: [2 * one for one in leaks(net, x, i)],
)


@wrong("leaks", "backward, so that the weights keep gradients")
def _(net, x, position):
    x = x.detach().clone().requires_grad_()
    net(x)[0, position].sum().backward()
    return [leaks(net, x.detach(), position)[0], x.grad[1:].abs().max().item()]


Tight = changed(ahead=1, axes1=(2,), axes2=(2,))


@right("mended_forecast", "norms that are left out")
def _():
    net = Tight()
    net.norm1, net.norm2 = nn.Identity(), nn.Identity()
    return net


@right("mended_forecast", "a table of weights in the place of attention")
def _():
    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.into, self.out = nn.Linear(1, WIDTH), nn.Linear(WIDTH, 2)
            self.table = nn.Parameter(torch.randn(ROW, ROW) / 4)

        def forward(self, x):
            return self.out(torch.einsum("ij,bjc->bic", self.table.tril(), self.into(x)))

    return Table()


wrong("mended_forecast", "a class and no network")(lambda: Tight)


@wrong("mended_forecast", "BatchNorm in evaluation mode alone")
def _():
    net = changed(ahead=1, axes1=(2,))()
    net.norm2.eval()
    return net


right("eight_patients", "with commas and blanks")(lambda: "b, f, h, e, g, a, c, d")
wrong("eight_patients", "seven letters")(lambda: "BFHEGAC")
wrong("eight_patients", "two exchanged that no list holds")(lambda: "BFHEGADC"[::-1])


@right("mended_forecast", "a causal convolution by Fourier transforms, 0 but for rounding")
def _():
    class Fourier(nn.Module):
        def __init__(self):
            super().__init__()
            self.into, self.out = nn.Linear(1, WIDTH), nn.Linear(WIDTH, 2)
            self.taps = nn.Parameter(torch.randn(ROW, WIDTH) / 4)

        def forward(self, x):
            h = torch.fft.rfft(self.into(x), 2 * ROW, dim=1) * torch.fft.rfft(self.taps, 2 * ROW, dim=0)
            return self.out(torch.fft.irfft(h, 2 * ROW, dim=1)[:, :ROW])

    return Fourier()


wrong("block_forward", "the block itself")(lambda block, x, condition: block(x, condition))

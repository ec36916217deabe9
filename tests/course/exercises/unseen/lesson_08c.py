"""Answers to the exercises of lesson 08c that no list of mistakes holds."""

import torch
from torch import nn

from residual_course.checking.tries import right, wrong
from residual_course.exercises.mended_scan import Mended
from residual_edu import MambaLayer, selective_scan


def scan(x, dt, A):
    memory, after = torch.zeros_like(x[0]), []
    for number, step in zip(x, dt, strict=True):
        memory = torch.exp(step * A) * memory + step * number
        after.append(memory)
    return torch.stack(after)


right("scan_by_hand", "the library's scan")(
    lambda x, dt, A, B, C: selective_scan(
        x.view(1, -1, 1, 1), dt.view(1, -1, 1), torch.tensor([A], dtype=x.dtype), B[None], C[None]
    ).flatten()
)
wrong("scan_by_hand", "read with the C of the position before")(
    lambda x, dt, A, B, C: scan_with(x, dt, A, B, torch.cat([C[:1], C[:-1]]))
)
wrong("scan_by_hand", "a state without a gradient")(
    lambda x, dt, A, B, C: scan_with(x, dt, A, B, C, torch.Tensor.detach)
)


def scan_with(x, dt, A, B, C, keep=lambda state: state):
    state, found = torch.zeros(B.shape[1]), []
    for t in range(len(x)):
        state = torch.exp(dt[t] * A) * keep(state) + dt[t] * x[t] * B[t]
        found.append((C[t] * state).sum())
    return torch.stack(found)


@right("scan_by_hand", "one number of the state after the other")
def _(x, dt, A, B, C):
    return sum(C[:, n] * scan(x * B[:, n], dt, A) for n in range(B.shape[1]))


@right("states_before", "the states of all positions, of which some are taken")
def _(x, dt, A, B, length):
    states = torch.stack([scan(x * B[:, n], dt, A) for n in range(B.shape[1])], dim=1)
    return torch.cat([torch.zeros(1, B.shape[1]), states])[: len(x) : length]


@wrong("states_before", "the last chunk left out")
def _(x, dt, A, B, length):
    whole = len(x) // length * length
    states = torch.stack([scan(x * B[:, n], dt, A) for n in range(B.shape[1])], dim=1)
    return torch.cat([torch.zeros(1, B.shape[1]), states])[:whole:length]


@wrong("states_before", "without a gradient")
def _(x, dt, A, B, length):
    states = torch.stack([scan(x * B[:, n], dt, A) for n in range(B.shape[1])], dim=1).detach()
    return torch.cat([torch.zeros(1, B.shape[1]), states])[: len(x) : length]


@right("mended_scan", "steps that start at 1")
class One(Mended):
    first = 0.54


@right("mended_scan", "the library's scan")
class ByLibrary(Mended):
    def scan(self, v, dt, B, C):
        return selective_scan(v, dt, -self.log_A.exp(), B, C)


@wrong("mended_scan", "the library's Mamba")
class Library(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = MambaLayer(16, d_state=16, headdim=8, dt_min=0.2, dt_max=1.0)

    def forward(self, x):
        return self.layer(x)

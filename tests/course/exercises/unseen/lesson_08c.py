"""Answers to the exercises of lesson 08c that no list of mistakes holds."""

import torch
from torch import nn

from residual_course.checking.tries import right, wrong
from residual_course.exercises.mended_scan import Mended
from residual_course.exercises.scan_by_hand import scan_by_hand, step, stepping
from residual_course.exercises.states_before import chunked, states_before
from residual_edu import MambaLayer, selective_scan


def scan(x, dt, A):
    memory, after = torch.zeros_like(x[0]), []
    for number, each in zip(x, dt, strict=True):
        memory = torch.exp(each * A) * memory + each * number
        after.append(memory)
    return torch.stack(after)


def all_states(x, dt, A, B):
    """One number of the state after the other."""
    return torch.stack([scan(x * B[:, n], dt, A) for n in range(B.shape[1])], dim=1)


right("scan_by_hand", "the library's scan")(
    lambda x, dt, A, B, C: selective_scan(
        x.view(1, -1, 1, 1), dt.view(1, -1, 1), torch.tensor([A], dtype=x.dtype), B[None], C[None]
    ).flatten()
)
right("scan_by_hand", "one number of the state after the other")(
    lambda x, dt, A, B, C: (C * all_states(x, dt, A, B)).sum(1)
)
right("scan_by_hand", "lerp's form of a step")(
    stepping(lambda S, x, dt, A, B: torch.addcmul(dt * x * B, (dt * A).exp().expand_as(B), S))
)
wrong("scan_by_hand", "read with the C of the position before")(
    lambda x, dt, A, B, C: scan_by_hand(x, dt, A, B, torch.cat([C[:1], C[:-1]]))
)
wrong("scan_by_hand", "a state without a gradient")(
    stepping(lambda state, x, dt, A, B: step(state.detach(), x, dt, A, B))
)

right("states_before", "the states of all positions, of which some are taken")(
    lambda x, dt, A, B, length: torch.cat([torch.zeros(1, B.shape[1]), all_states(x, dt, A, B)])[: len(x) : length]
)
right("states_before", "sums from the end")(chunked(lambda dt: dt.flip(0).cumsum(0).flip(0) - dt))
wrong("states_before", "the last chunk left out")(
    lambda x, dt, A, B, length: states_before(x, dt, A, B, length)[: len(x) // length]
)
wrong("states_before", "without a gradient")(lambda *given: states_before(*given).detach())


class ByLibrary(Mended):
    def scan(self, v, dt, B, C):
        return selective_scan(v, dt, -self.log_A.exp(), B, C)


class Library(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = MambaLayer(16, d_state=16, headdim=8, dt_min=0.2, dt_max=1.0)

    def forward(self, x):
        return self.layer(x)


right("mended_scan", "steps that start at 1")(type("One", (Mended,), {"first": 0.54}))
right("mended_scan", "the library's scan")(ByLibrary)
wrong("mended_scan", "the library's Mamba")(Library)

"""Answers to the exercises of lesson 08c that no list of mistakes holds."""

from functools import partial
from math import exp

import torch
from torch import nn
from torch.linalg import solve
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong
from residual_course.exercises.mended_scan import Mended
from residual_course.exercises.scan_by_hand import scan_by_hand, step, stepping
from residual_course.exercises.states_before import chunked, states_before
from residual_edu import MambaLayer, chunked_scan, selective_scan

scanned, before, mended = (partial(right, name) for name in ("scan_by_hand", "states_before", "mended_scan"))


def scan(x, dt, A):
    memory, after = torch.zeros_like(x[0]), []
    for number, each in zip(x, dt, strict=True):
        memory = torch.exp(each * A) * memory + each * number
        after.append(memory)
    return torch.stack(after)


def all_states(x, dt, A, B):
    """One number of the state after the other."""
    return torch.stack([scan(x * B[:, n], dt, A) for n in range(B.shape[1])], dim=1)


def kept(total):
    """What is left of each position at each, of running sums."""
    return (total[:, None] - total).tril().exp().tril()


scanned("the library's scan")(
    lambda x, dt, A, B, C: selective_scan(x.view(1, -1, 1, 1), dt.view(1, -1, 1), x.new_tensor([A]), B[None], C[None])[
        0, :, 0, 0
    ]
)
scanned("one number of the state after the other")(lambda x, dt, A, B, C: (C * all_states(x, dt, A, B)).sum(1))
scanned("addcmul")(stepping(lambda S, x, dt, A, B: torch.addcmul(dt * x * B, (dt * A).exp().expand_as(B), S)))
scanned("powers of what one unit keeps")(stepping(lambda S, x, dt, A, B: S * exp(A) ** dt + x * (dt * B)))
scanned("all pairs")(lambda x, dt, A, B, C: torch.einsum("tn,sn,ts,s->t", C, B, kept((dt * A).cumsum(0)), dt * x))
scanned("a system of equations")(
    lambda x, dt, A, B, C: solve(torch.eye(len(x)) - (A * dt[1:]).exp().diag(-1), (dt * x)[:, None] * B).mul(C).sum(1)
)
wrong("scan_by_hand", "an earlier C")(lambda x, dt, A, B, C: scan_by_hand(x, dt, A, B, torch.cat([C[:1], C[:-1]])))
wrong("scan_by_hand", "a state without a gradient")(stepping(lambda S, *given: step(S.detach(), *given)))


def at_once(x, dt, A, B, length):
    """All chunks, behind the last of which are zeros."""
    x, dt, *B = (F.pad(each, (0, -len(x) % length)).view(-1, length) for each in (x, dt, *B.mT))
    left = (A * (dt.sum(1, keepdim=True) - dt.cumsum(1))).exp() * dt * x
    return F.pad(kept((A * dt.sum(1)).cumsum(0)) @ torch.stack([(left * b).sum(1) for b in B], 1), (0, 0, 1, 0))[:-1]


before("all states, of which some are taken")(
    lambda x, dt, A, B, n: torch.cat([torch.zeros(1, B.shape[1]), all_states(x, dt, A, B)])[: len(x) : n]
)
before("sums from the end")(chunked(lambda dt: dt.flip(0).cumsum(0).flip(0) - dt))
before("a matrix of ones above the diagonal")(chunked(lambda dt: torch.ones(len(dt), len(dt)).triu(1) @ dt))
before("each sum on its own")(chunked(lambda dt: torch.stack([dt[s + 1 :].sum() for s in range(len(dt))])))
before("in float64")(lambda x, dt, A, B, n: states_before(x.double(), dt.double(), A, B.double(), n))
before("all chunks at once")(at_once)
wrong("states_before", "a last chunk left out")(lambda x, *given: states_before(x, *given)[: len(x) // given[-1]])
wrong("states_before", "without a gradient")(lambda *given: states_before(*given).detach())


def mixer(scan):
    return type("Mixer", (Mended,), {"scan": scan})


def by_position(self, v, dt, B, C):
    written, dt = torch.einsum("bthp,btn->tbhpn", v, B), dt.movedim(1, 0)[..., None, None]
    return torch.einsum("btn,tbhpn->bthp", C, scan(written, dt, -self.log_A.exp()[:, None, None]))


class Library(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = MambaLayer(16, d_state=16, headdim=8, dt_min=0.2, dt_max=1.0)

    def forward(self, x):
        return self.layer(x)


mended("steps that start at 1")(type("One", (Mended,), {"first": 0.54}))
mended("steps that start at a half")(type("Half", (Mended,), {"first": -0.43}))
mended("the library's chunks")(mixer(lambda self, v, dt, B, C: chunked_scan(v, dt, -self.log_A.exp(), B, C)))
mended("the library's scan")(mixer(lambda self, v, dt, B, C: selective_scan(v, dt, -self.log_A.exp(), B, C)))
mended("float64, and back")(mixer(lambda self, *given: Mended.scan(self, *(x.double() for x in given)).float()))
mended("position by position")(mixer(by_position))
wrong("mended_scan", "the library's Mamba")(Library)

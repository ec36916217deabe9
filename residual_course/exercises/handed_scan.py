"""The selective mixer that lesson 08c hands over to be mended, the network around it, and its task."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDTH, HEADS, STATE = 16, 4, 8
QUESTION = 1


class Handed(nn.Module):
    """The mixer as it is handed over; its class attributes are what a mend changes."""

    alone = False  # whether a step depends on its own position alone, and not on the mean step of all
    fades = False  # whether the fading depends on the input, as the writing does
    first = -5.0  # of the steps at the start, before the softplus

    def __init__(self) -> None:
        super().__init__()
        self.cut = [WIDTH, STATE, STATE, HEADS]
        self.enter, self.leave = nn.Linear(WIDTH, sum(self.cut), bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.dt0 = nn.Parameter(torch.full((HEADS,), self.first))
        self.log_A = nn.Parameter(torch.arange(1.0, HEADS + 1).log())

    def forward(self, x: Tensor) -> Tensor:
        """Return an output at each position of x, (rows, positions, WIDTH)."""
        v, B, C, dt = self.enter(x).split(self.cut, dim=-1)
        dt = F.softplus(dt + self.dt0)
        if not self.alone:
            dt = dt / dt.mean(1, keepdim=True)
        return self.leave(self.scan(v.unflatten(-1, (HEADS, -1)), dt, B, C).flatten(2))

    def scan(self, v: Tensor, dt: Tensor, B: Tensor, C: Tensor) -> Tensor:
        """Return the scan of values in heads, from all pairs at once."""
        steps = dt if self.fades else F.softplus(self.dt0).expand_as(dt)
        total = (steps * -self.log_A.exp()).cumsum(1).mT
        later = torch.ones(v.shape[1], v.shape[1]).triu(1).bool()
        left = (total[..., :, None] - total[..., None, :]).masked_fill(later, -torch.inf).exp()
        return (((C @ B.mT)[:, None] * left) @ (dt[..., None] * v).transpose(1, 2)).transpose(1, 2)


def changed(**values: Any) -> type[Handed]:
    """Return the mixer with other values of its attributes."""
    return type("Changed", (Handed,), values)


MENDED: dict[str, Any] = {"alone": True, "fades": True, "first": 0.0}


class ByLoop(changed(**MENDED)):  # type: ignore[misc]
    """Mended, with a loop over positions in the place of all pairs."""

    def scan(self, v: Tensor, dt: Tensor, B: Tensor, C: Tensor) -> Tensor:
        """Return the same, one position after another."""
        keep, state, outputs = (dt * -self.log_A.exp()).exp(), v.new_zeros(*v[:, 0].shape, B.shape[-1]), []
        for t in range(v.shape[1]):
            new = (dt[:, t, :, None] * v[:, t])[..., None] * B[:, t, None, None]
            state = keep[:, t, :, None, None] * state + new
            outputs.append((state * C[:, t, None, None]).sum(-1))
        return torch.stack(outputs, dim=1)


class Network(nn.Module):
    """One residual block around a mixer, with an MLP of 64."""

    def __init__(self, mixer: nn.Module) -> None:
        super().__init__()
        self.embed, self.mixer = nn.Embedding(11, WIDTH), mixer
        self.norm1, self.norm2, self.norm3 = (nn.RMSNorm(WIDTH, eps=1e-5) for _ in range(3))
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))
        self.out = nn.Linear(WIDTH, 11)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return scores of the tokens at each position."""
        x = self.embed(tokens)
        x = x + self.mixer(self.norm1(x))
        return self.out(self.norm3(x + self.mlp(self.norm2(x))))


def copying(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return tokens, (count, length + 2): 0 noise, 1 a question, 2 to 9 symbols; and the two symbols in order."""
    places = torch.rand(count, length, generator=generator).argsort(1)[:, :2].sort(1).values
    symbols = torch.randint(2, 10, (count, 2), generator=generator)
    tokens = torch.zeros(count, length).long().scatter(1, places, symbols)
    return F.pad(tokens, (0, 2), value=QUESTION), symbols

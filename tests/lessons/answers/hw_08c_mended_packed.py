"""Right and wrong answers to `MendedPacked` of the homework of lesson 08c."""

import torch
from torch import nn
from torch.nn import functional as F

from residual_edu import selective_scan


class Parts(nn.Module):
    """A right answer in parts, each of which a wrong one replaces."""

    def __init__(self, width=8, state=4):
        super().__init__()
        self.now, self.before = (nn.Parameter(torch.randn(width)) for _ in range(2))
        self.sizes = [1, state, state]
        self.choose = nn.Linear(width, sum(self.sizes))

    def forward(self, x, start):
        start = start[..., None]
        u = F.silu(self.now * x + self.before * self.earlier(x, start))
        dt, B, C = self.choose(u).split(self.sizes, dim=-1)
        return self.scan(u[:, :, None], F.softplus(dt), B, C, start)[:, :, 0]

    def earlier(self, x, start):
        return F.pad(x, (0, 0, 1, -1)) * ~start

    def scan(self, u, dt, B, C, start, added=lambda dt, long: dt / long):
        long = dt.masked_fill(start, 50.0)
        return selective_scan(u, long, u.new_tensor([-1.0]), B * added(dt, long), C)


class ForgetsAlone(Parts):
    def earlier(self, x, start):
        return F.pad(x, (0, 0, 1, -1))


class AddsTooMuch(Parts):
    def scan(self, *parts):
        return super().scan(*parts, added=lambda dt, long: 1)


class FirstRowForAll(Parts):
    def forward(self, x, start):
        return super().forward(x, start[:1].expand_as(start))


class ScansEachText(Parts):
    def forward(self, x, start):
        texts = zip(x.split(1), start, strict=True)
        return torch.cat([torch.cat([*self.alone(row, begins)], dim=1) for row, begins in texts])

    def alone(self, row, begins):
        for text in row.tensor_split(begins[1:].nonzero().flatten() + 1, dim=1):
            yield super().forward(text, torch.zeros(text.shape[:2]).bool())


class ValuesInPlaceOfKeys(Parts):
    """What is added is set right in x, and a text is left by a state that is 1e-300 of itself."""

    def scan(self, u, dt, B, C, start):
        long = torch.where(start, 700.0, dt)
        return selective_scan(u * (dt / long)[..., None], long, u.new_tensor([-1.0]), B, C)


WRONG = {"MendedPacked": [ForgetsAlone, AddsTooMuch, FirstRowForAll, ScansEachText]}
RIGHT = {"MendedPacked": [ValuesInPlaceOfKeys]}

"""Answers to the exercises of lesson 10 that no list of mistakes holds."""

import torch
from torch import nn
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong


@right("losses_by_position", "position by position")
def _(model, rows):
    scores = model(rows[:, :-1])
    return torch.stack([F.cross_entropy(scores[:, at], rows[:, at + 1]) for at in range(rows.shape[1] - 1)])


right("losses_by_position", "all tokens given, the last scores dropped")(
    lambda model, rows: F.cross_entropy(model(rows)[:, :-1].mT, rows[:, 1:], reduction="none").mean(0)
)
wrong("losses_by_position", "classes and positions mixed up by a view")(
    lambda model, rows: F.cross_entropy(
        (s := model(rows[:, :-1])).reshape(len(rows), -1, s.shape[1]), rows[:, 1:], reduction="none"
    ).mean(0)
)
wrong("losses_by_position", "under no_grad")(
    torch.no_grad()(lambda model, rows: F.cross_entropy(model(rows[:, :-1]).mT, rows[:, 1:], reduction="none").mean(0))
)


class Parts(nn.Module):
    """What `__init__` of the lesson's block makes, each part of some kind."""

    def __init__(self, d_model=64, n_heads=4, d_ff=256):
        super().__init__()
        self.attn_norm, self.ffn_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attention, self.ffn = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)


@right("decoder_block", "in a loop")
class _(Parts):
    def forward(self, x):
        for norm, f in ((self.attn_norm, self.attention), (self.ffn_norm, self.ffn)):
            x = x + f(norm(x))
        return x


@wrong("decoder_block", "the first sum thrown away")
class _(Parts):
    def forward(self, x):
        x + self.attention(self.attn_norm(x))
        return x + self.ffn(self.ffn_norm(x))


@wrong("decoder_block", "in place, which changes what the caller has")
class _(Parts):
    def forward(self, x):
        x += self.attention(self.attn_norm(x))
        x += self.ffn(self.ffn_norm(x))
        return x


@wrong("decoder_block", "without a gradient for attention")
class _(Parts):
    def forward(self, x):
        x = x + self.attention(self.attn_norm(x)).detach()
        return x + self.ffn(self.ffn_norm(x))


@right("mended_attend", "exponentials, divided by their sum")
def _(q, k, v):
    n, m = q.shape[-2], k.shape[-2]
    e = (torch.einsum("...id,...jd->...ij", q, k) / q.shape[-1] ** 0.5).exp().tril(m - n)
    return e / e.sum(-1, keepdim=True) @ v


@right("mended_attend", "a large negative number in place of -inf")
def _(q, k, v):
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    return F.softmax(scores - 1e9 * torch.ones(n, m).triu(1 + m - n), dim=-1) @ v


@wrong("mended_attend", "the first n keys alone")
def _(q, k, v):
    n = q.shape[-2]
    hidden = torch.ones(n, n).triu(1).bool()
    return (q @ k[..., :n, :].mT / q.shape[-1] ** 0.5).masked_fill(hidden, -torch.inf).softmax(-1) @ v[..., :n, :]


@wrong("mended_attend", "zeros where later scores stood")
def _(q, k, v):
    n, m = q.shape[-2], k.shape[-2]
    return (q @ k.mT / q.shape[-1] ** 0.5).tril(m - n).softmax(-1) @ v

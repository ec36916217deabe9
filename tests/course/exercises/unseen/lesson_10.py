"""Answers to the exercises of lesson 10 that no list of mistakes holds."""

import torch
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong
from residual_course.exercises.decoder import ATTEND, made


def entropy(scores, rows):
    return F.cross_entropy(scores, rows[:, 1:], reduction="none").mean(0)


right("losses_by_position", "position by position")(
    lambda model, rows: torch.stack(
        [F.cross_entropy(*both) for both in zip(model(rows[:, :-1]).unbind(1), rows[:, 1:].unbind(1), strict=True)]
    )
)
right("losses_by_position", "all tokens given, the last scores dropped")(
    lambda model, rows: entropy(model(rows)[:, :-1].mT, rows)
)
right("losses_by_position", "logarithms of shares, gathered")(
    lambda model, rows: -model(rows[:, :-1]).log_softmax(-1).gather(2, rows[:, 1:, None])[..., 0].mean(0)
)
wrong("losses_by_position", "classes and positions mixed up by a view")(
    lambda model, rows: entropy((s := model(rows[:, :-1])).reshape(len(rows), -1, s.shape[1]), rows)
)
wrong("losses_by_position", "under no_grad")(torch.no_grad()(lambda model, rows: entropy(model(rows[:, :-1]).mT, rows)))


def in_a_loop(self, x):
    for norm, f in ((self.attn_norm, self.attention), (self.ffn_norm, self.ffn)):
        x = x + f(norm(x))
    return x


right("decoder_block", "in a loop")(made(in_a_loop))
right("decoder_block", "sums of sums")(
    made(lambda b, x: x + (a := b.attention(b.attn_norm(x))) + b.ffn(b.ffn_norm(x + a)))
)
wrong("decoder_block", "the first sum thrown away")(made(lambda b, x: x + b.ffn(b.ffn_norm(x))))
wrong("decoder_block", "in place, which changes what the caller has")(
    made(lambda b, x: x.add_(b.attention(b.attn_norm(x))).add_(b.ffn(b.ffn_norm(x))))
)
wrong("decoder_block", "without a gradient for attention")(
    made(lambda b, x: (y := x + b.attention(b.attn_norm(x)).detach()) + b.ffn(b.ffn_norm(y)))
)


def lag(q, k):
    """How many keys stand before the first query."""
    return k.shape[-2] - q.shape[-2]


def scores(q, k):
    return torch.einsum("...id,...jd->...ij", q, k) / q.shape[-1] ** 0.5


right("mended_attend", "exponentials, divided by their sum")(
    lambda q, k, v: (e := scores(q, k).exp().tril(lag(q, k))) / e.sum(-1, keepdim=True) @ v
)
right("mended_attend", "a large negative number in place of -inf")(
    lambda q, k, v: F.softmax((s := scores(q, k)) - 1e9 * torch.ones_like(s).triu(1 + lag(q, k)), dim=-1) @ v
)
right("mended_attend", "torch's kernel")(
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, torch.ones_like(scores(q, k)).tril(lag(q, k)) > 0)
)
wrong("mended_attend", "the first n keys alone")(
    lambda q, k, v: ATTEND(q, k[..., : q.shape[-2], :], v[..., : q.shape[-2], :])
)
wrong("mended_attend", "zeros where later scores stood")(lambda q, k, v: scores(q, k).tril(lag(q, k)).softmax(-1) @ v)

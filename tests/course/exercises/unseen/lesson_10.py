"""Answers to the exercises of lesson 10 that no list of mistakes holds."""

from functools import partial

import torch
from torch.distributions import Categorical
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right
from torch.utils.checkpoint import checkpoint

from residual_course.checking.tries import right, wrong
from residual_course.exercises.decoder import ATTEND, made

losses, attend = partial(right, "losses_by_position"), partial(right, "mended_attend")
each, kernel = partial(F.cross_entropy, reduction="none"), F.scaled_dot_product_attention


def entropy(scores, rows):
    return each(scores, rows[:, 1:]).mean(0)


losses("by position")(lambda f, rows: torch.stack([*map(F.cross_entropy, f(rows[:, :-1]).movedim(1, 0), rows.T[1:])]))
losses("all tokens given, the last scores dropped")(lambda model, rows: entropy(model(rows)[:, :-1].mT, rows))
losses("gathered")(lambda f, rows: -f(rows[:, :-1]).log_softmax(-1).gather(2, rows[:, 1:, None])[..., 0].mean(0))
losses("torch's distribution")(lambda f, rows: -Categorical(logits=f(rows[:, :-1])).log_prob(rows[:, 1:]).mean(0))
losses("mapped")(lambda model, rows: torch.vmap(F.cross_entropy, in_dims=1)(model(rows[:, :-1]), rows[:, 1:]))
losses("row by row, in float32")(lambda f, rows: sum(map(each, f(rows[:, :-1]).float(), rows[:, 1:])) / len(rows))
wrong("losses_by_position", "mixed axes")(lambda f, rows: entropy((s := f(rows[:, :-1])).reshape(s.mT.shape), rows))
wrong("losses_by_position", "under no_grad")(torch.no_grad()(lambda model, rows: entropy(model(rows[:, :-1]).mT, rows)))


def block(what, forward, judged=right):
    judged("decoder_block", what)(made(forward))


def in_a_loop(self, x):
    for norm, f in ((self.attn_norm, self.attention), (self.ffn_norm, self.ffn)):
        x = x + f(norm(x))
    return x


block("in a loop", in_a_loop)
block("sums of sums", lambda b, x: x + (a := b.attention(b.attn_norm(x))) + b.ffn(b.ffn_norm(x + a)))
block("in place", lambda b, x: b.ffn(b.ffn_norm(y := b.attention(b.attn_norm(x)).add_(x))).add_(y))
block("row by row", lambda b, x: torch.cat([in_a_loop(b, row) for row in x.split(1)]))
block(
    "by position",
    lambda b, x: torch.hstack([y + b.ffn(b.ffn_norm(y)) for y in (x + b.attention(b.attn_norm(x))).split(1, 1)]),
)
block("computed again in the backward pass", lambda b, x: checkpoint(in_a_loop, b, x, use_reentrant=False))
block("the first sum thrown away", lambda b, x: x + b.ffn(b.ffn_norm(x)), wrong)
block("the caller's x, in place", lambda b, x: x.add_(b.attention(b.attn_norm(x))).add_(b.ffn(b.ffn_norm(x))), wrong)
block("attention cut off", lambda b, x: (y := x + b.attention(b.attn_norm(x)).detach()) + b.ffn(b.ffn_norm(y)), wrong)


def lag(q, k):
    """How many keys stand before the first query."""
    return k.shape[-2] - q.shape[-2]


def scores(q, k):
    return torch.einsum("...id,...jd->...ij", q, k) / q.shape[-1] ** 0.5


def query_by_query(q, k, v):
    out = torch.zeros(q.shape)
    for i, n in enumerate(range(lag(q, k) + 1, k.shape[-2] + 1)):
        out[..., i, :] = (scores(q[..., i : i + 1, :], k[..., :n, :]).softmax(-1) @ v[..., :n, :])[..., 0, :]
    return out


attend("exponentials")(lambda q, k, v: (e := scores(q, k).exp().tril(lag(q, k))) / e.sum(-1, keepdim=True) @ v)
attend("-1e9")(lambda q, k, v: ((s := scores(q, k)) - 1e9 * torch.ones_like(s).triu(1 + lag(q, k))).softmax(-1) @ v)
attend("torch's kernel")(lambda q, k, v: kernel(q, k, v, torch.ones_like(scores(q, k)).tril(lag(q, k)) > 0))
attend("its lower right triangle")(lambda q, k, v: kernel(q, k, v, causal_lower_right(q.shape[-2], k.shape[-2])))
attend("zeros before")(lambda q, k, v: kernel(F.pad(q, (0, 0, (d := lag(q, k)), 0)), k, v, is_causal=True)[..., d:, :])
attend("query by query, into float32")(query_by_query)
wrong("mended_attend", "the first n keys")(lambda q, k, v: ATTEND(q, k[..., : (n := q.shape[-2]), :], v[..., :n, :]))
wrong("mended_attend", "zeros where later scores stood")(lambda q, k, v: scores(q, k).tril(lag(q, k)).softmax(-1) @ v)

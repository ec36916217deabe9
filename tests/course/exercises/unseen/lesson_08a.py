"""Answers to the exercises of lesson 08a that no list of mistakes holds."""

import torch
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong
from residual_course.exercises.attention import RIGHT, Parts, attend, causal, changed, class_of, columns, heads

# attend


def one_by_one(q, k, v, mask):
    rows = [attend(q[..., [i], :], k[..., m, :], v[..., m, :], m[m]) for i, m in enumerate(mask)]
    return torch.cat(rows, dim=-2)


for what, answer in {
    "for each query the keys that it may see": one_by_one,
    "a very negative number": lambda q, k, v, mask: (q @ k.mT / q.shape[-1] ** 0.5 - 1e9 * (~mask)).softmax(-1) @ v,
    "the mask's log": lambda q, k, v, mask: (q @ k.mT * q.shape[-1] ** -0.5 + mask.double().log()).softmax(-1) @ v,
    "no softmax": lambda q, k, v, mask: F.normalize((q / q.shape[-1] ** 0.5 @ k.mT).exp() * mask, p=1, dim=-1) @ v,
    "keys in the rows": lambda q, k, v, mask: columns(k @ q.mT / q.shape[-1] ** 0.5, mask.T).mT @ v,
    "torch's kernel": F.scaled_dot_product_attention,
}.items():
    right("attend", what)(answer)
wrong("attend", "a mask of its own")(lambda q, k, v, mask: attend(q, k, v, causal(q.shape[-2])))
wrong("attend", "the root of the lesson's d")(lambda q, k, v, mask: attend(q * (q.shape[-1] / 2) ** 0.5, k, v, mask))
wrong("attend", "query and key exchanged")(lambda q, k, v, mask: attend(k, q, v, mask))

# Several heads


def mixed(self, three):
    return self.out_proj(self.mix(*map(self.split, three)).transpose(1, 2).flatten(2))


@right("self_attention", "torch's kernel")
@class_of
def _(self, x):
    q, k, v = self.qkv_proj(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return self.out_proj(y.transpose(1, 2).reshape(x.shape))


@right("self_attention", "head after head, from three maps")
@class_of
def _(self, x):
    q, k, v = (F.linear(x, w).chunk(self.heads, -1) for w in self.qkv_proj.weight.chunk(3))
    return self.out_proj(torch.cat([*map(self.mix, q, k, v)], dim=-1))


right("self_attention", "heads one after the other")(changed(merge=lambda y: torch.cat(list(y.unbind(1)), dim=-1)))
right("self_attention", "each head through its part of the last map")(
    class_of(
        lambda self, x: sum(
            map(F.linear, heads(self, x, torch.clone).unbind(1), self.out_proj.weight.chunk(self.heads, 1))
        )
    )
)
right("self_attention", "heads joined across")(changed(merge=lambda y: y.mT.flatten(1, 2).mT))
right("self_attention", "each position as the last one of a shorter input")(
    class_of(lambda self, x: torch.cat([RIGHT.forward(self, x[:, :i])[:, -1:] for i in range(1, x.shape[1] + 1)], 1))
)
wrong("self_attention", "three parts of each head")(
    class_of(lambda self, x: mixed(self, self.qkv_proj(x).unflatten(-1, (-1, 3)).unbind(-1)))
)
wrong("self_attention", "a batch of one")(class_of(lambda self, x: RIGHT.forward(self, x[:1])))
wrong("self_attention", "the numbers of the heads in turns")(changed(merge=lambda y: y.permute(0, 2, 3, 1).flatten(2)))
wrong("self_attention", "an instance and no class")(Parts(6, 2))

# Heads that see the future

right("mended_heads", "the lesson's mix")(class_of(lambda self, x: mixed(self, self.qkv_proj(x).chunk(3, dim=-1))))
right("mended_heads", "einops")(changed(merge=lambda y: y.permute(0, 2, 1, 3).contiguous().view(*y.shape[::2], -1)))
right("mended_heads", "queries in the columns")(changed(weigh=lambda scores, mask: columns(scores.mT, mask.T).mT))
right("mended_heads", "no softmax")(changed(weigh=lambda scores, _: F.normalize(scores.exp().tril(), p=1, dim=-1)))
right("mended_heads", "heads side by side by dstack")(changed(merge=lambda y: torch.dstack(y.unbind(1))))
right("mended_heads", "a triangle that is added")(
    changed(weigh=lambda scores, _: (scores + torch.full_like(scores, -torch.inf).triu(1)).log_softmax(-1).exp())
)
wrong("mended_heads", "softmax along the columns, then rows divided by their sum")(
    changed(weigh=lambda scores, mask: (w := columns(scores, mask)) / w.sum(-1, keepdim=True))
)

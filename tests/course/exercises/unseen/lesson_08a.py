"""Answers to the exercises of lesson 08a that no list of mistakes holds."""

import torch
from torch import nn

from residual_course.checking.tries import right, wrong
from residual_course.exercises.attention import RIGHT, Parts, attend, causal, changed, class_of, columns

# attend


@right("attend", "a loop over queries")
def _(q, k, v, mask):
    rows = []
    for i in range(q.shape[-2]):
        scores = (k @ q[..., i, :, None])[..., 0] / q.shape[-1] ** 0.5
        shares = scores.exp() * mask[i]
        rows.append((shares / shares.sum(-1, keepdim=True))[..., None, :] @ v)
    return torch.cat(rows, dim=-2)


right("attend", "a very negative number in the place of minus infinity")(
    lambda q, k, v, mask: ((q @ k.mT) / q.shape[-1] ** 0.5 - 1e9 * (~mask)).softmax(-1) @ v
)
right("attend", "torch's kernel")(nn.functional.scaled_dot_product_attention)
wrong("attend", "a mask of its own")(lambda q, k, v, mask: attend(q, k, v, causal(q.shape[-2])))
wrong("attend", "the root of the lesson's d")(lambda q, k, v, mask: attend(q * (q.shape[-1] / 2) ** 0.5, k, v, mask))
wrong("attend", "query and key exchanged")(lambda q, k, v, mask: attend(k, q, v, mask))

# Several heads


@right("self_attention", "torch's kernel")
@class_of
def _(self, x):
    q, k, v = self.qkv_proj(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
    y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return self.out_proj(y.transpose(1, 2).reshape(x.shape))


right("self_attention", "heads joined one after the other")(
    changed(merge=lambda y: torch.cat(list(y.unbind(1)), dim=-1))
)


@wrong("self_attention", "three parts of each head")
@class_of
def _(self, x):
    q, k, v = map(self.split, self.qkv_proj(x).unflatten(-1, (-1, 3)).unbind(-1))
    return self.out_proj(self.mix(q, k, v).transpose(1, 2).flatten(2))


wrong("self_attention", "a batch of one")(class_of(lambda self, x: RIGHT.forward(self, x[:1])))
wrong("self_attention", "the numbers of the heads in turns")(changed(merge=lambda y: y.permute(0, 2, 3, 1).flatten(2)))
wrong("self_attention", "an instance and no class")(Parts(6, 2))

# Heads that see the future


@right("mended_heads", "the lesson's mix")
@class_of
def _(self, x):
    q, k, v = map(self.split, self.qkv_proj(x).chunk(3, dim=-1))
    return self.out_proj(self.mix(q, k, v).transpose(1, 2).flatten(2))


right("mended_heads", "einops by hand")(
    changed(merge=lambda y: y.permute(0, 2, 1, 3).contiguous().view(len(y), y.shape[2], -1))
)
wrong("mended_heads", "softmax along the columns, then rows divided by their sum")(
    changed(weigh=lambda scores, mask: (w := columns(scores, mask)) / w.sum(-1, keepdim=True))
)

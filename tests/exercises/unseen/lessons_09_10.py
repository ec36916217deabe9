"""Answers to the exercises of lessons 09 and 10 that no list of mistakes holds."""

import numpy as np
import torch

from residual_edu import rotate
from residual_edu.exercises.tries import right, wrong

wrong("compete", "a gain without a gradient")(
    lambda x, gamma, beta, eps: (
        gamma.detach() * x * (n := x.square().sum(1, keepdim=True).sqrt()) / (n.mean(-1, keepdim=True) + eps) + beta + x
    )
)
right("compete", "vector_norm")(
    lambda x, gamma, beta, eps: torch.addcmul(
        beta + x, gamma * x, (n := torch.linalg.vector_norm(x, dim=1, keepdim=True)) / (n.mean(-1, keepdim=True) + eps)
    )
)
wrong("block_flops", "32 bits")(lambda t, c: int(np.int32((16 * t * c * c + 4 * t * t * c + 2**31) % 2**32 - 2**31)))
right("block_flops", "a float")(lambda t, c: 4.0 * t * c * (4 * c + t))


@wrong("assemble", "sums in place")
def _(x, attention, ffn, attn_norm, ffn_norm, pre_norm):
    x = x.clone()
    if pre_norm:
        x += attention(attn_norm(x))
        return x + ffn(ffn_norm(x))
    x = attn_norm(x + attention(x))
    return ffn_norm(x + ffn(x))


@wrong("assemble", "both wirings run, one returned")
def _(x, attention, ffn, attn_norm, ffn_norm, pre_norm):
    pre = x + attention(attn_norm(x))
    post = attn_norm(x + attention(x))
    return pre + ffn(ffn_norm(pre)) if pre_norm else ffn_norm(post + ffn(post))


right("assemble", "by where the norms go")(
    lambda x, a, f, n1, n2, pre: (h := x + a(n1(x))) + f(n2(h)) if pre else n2((h := n1(x + a(x))) + f(h))
)
wrong("share_heads", "shared heads that do not learn")(
    lambda x, heads: torch.cat([x[:, [h * x.shape[1] // heads]].detach() if h else x[:, :1] for h in range(heads)], 1)
)
right("share_heads", "expand")(lambda x, heads: x[:, :, None].expand(-1, -1, heads // x.shape[1], -1, -1).flatten(1, 2))


@wrong("window_mask", "the other mask overwritten")
def _(queries, keys, window, mask):
    ahead = torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]
    allowed = (ahead <= 0) & (ahead > -window)
    return allowed if mask is None else mask.logical_and_(allowed)


wrong("remember", "kept keys without a gradient")(
    lambda kept, new, angles: (
        rotate(new, angles[: new.shape[-2]])
        if kept is None
        else torch.cat([kept.detach(), rotate(new, angles[kept.shape[-2] : kept.shape[-2] + new.shape[-2]])], -2)
    )
)
wrong("remember", "three axes taken for granted")(
    lambda kept, new, angles: (
        rotate(new, angles[: new.shape[1]])
        if kept is None
        else torch.cat([kept, rotate(new, angles[kept.shape[1] : kept.shape[1] + new.shape[1]])], 1)
    )
)
right("remember", "an empty tensor for none")(
    lambda kept, new, angles: torch.cat(
        [
            kept := new[..., :0, :] if kept is None else kept,
            rotate(new, angles[torch.arange(kept.shape[-2], kept.shape[-2] + new.shape[-2])]),
        ],
        -2,
    )
)

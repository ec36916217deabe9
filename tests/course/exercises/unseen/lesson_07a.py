"""Answers to the exercises of lesson 07a that no list of mistakes holds."""

import torch
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong


@right("moved", "a mask of the changed position")
def _(part, x, place):
    here = torch.zeros(x.shape[1:-1], dtype=torch.bool)
    here[place] = True
    other = torch.where(here[..., None], torch.rand_like(x) - 0.5, x)
    return ((part(other) - part(x)).abs() > 1e-5).any(dim=-1).squeeze(0)


@right("moved", "without gradients, as a list of a list")
def _(part, x, place):
    with torch.no_grad():
        other = x.clone()
        other[(0, *place)] = 5 * torch.rand(x.shape[-1]).to(x)
        return (part(other) - part(x)).abs().amax(-1)[0].gt(1e-5).tolist()


@wrong("moved", "x itself changed")
def _(part, x, place):
    before = part(x)
    x[(0, *place)] = torch.randn_like(x[(0, *place)])
    return (part(x) - before).abs().amax(-1)[0] > 1e-5


@wrong("moved", "all positions changed at once")
def _(part, x, place):
    return (part(torch.randn_like(x)) - part(x)).abs().amax(-1)[0] > 1e-5


right("channels_first_norm", "an instance norm of the transposed signal")(
    lambda x: F.instance_norm(x.flatten(2).mT).mT.reshape(x.shape)
)
right("channels_first_norm", "einsum and the mean of squares")(
    lambda x: (x - x.mean(1, True)) / ((x * x).mean(1, True) - x.mean(1, True) ** 2 + 1e-5).sqrt()
)
wrong("channels_first_norm", "channels and the first axis of space")(
    lambda x: (x - x.mean((1, 2), True)) / (x.var((1, 2), correction=0, keepdim=True) + 1e-5).sqrt()
)


@wrong("channels_first_norm", "an eps outside of the root")
def _(x):
    return (x - x.mean(1, True)) / (x.std(1, correction=0, keepdim=True) + 1e-5)


wrong("block_forward", "the block itself")(lambda block, x, condition: block(x, condition))

"""Answers to the exercises of lesson 07a that no list of mistakes holds."""

from functools import partial

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong
from residual_course.exercises.block_forward import BRANCHES
from residual_course.exercises.block_forward import forward as lines
from residual_course.exercises.moved import answer
from residual_edu import is_bypassed


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


right("moved", "a length")(answer(size=lambda y: y.norm(dim=-1)))
right("moved", "a sum of squares")(answer(size=lambda y: y.square().sum(-1), more_than=1e-10))
right("moved", "channel by channel")(answer(size=lambda y: y.abs().gt(1e-5).any(-1), more_than=False))
right("moved", "NumPy")(answer(size=lambda y: np.linalg.norm(y.detach().numpy(), np.inf, axis=-1)))


@wrong("moved", "x itself changed")
def _(part, x, place):
    before = part(x)
    x[(0, *place)] = torch.randn_like(x[(0, *place)])
    return (part(x) - before).abs().amax(-1)[0] > 1e-5


@wrong("moved", "isclose, which forgives a share of the output")
def _(part, x, place):
    other = x.clone()
    other[(0, *place)] = torch.randn_like(x[(0, *place)])
    return ~torch.isclose(part(other), part(x), atol=1e-5).all(-1)[0]


wrong("moved", "all positions changed at once")(
    lambda part, x, place: (part(torch.randn_like(x)) - part(x)).abs().amax(-1)[0] > 1e-5
)

for what, norm in {
    "an instance norm of the transposed signal": lambda x: F.instance_norm(x.flatten(2).mT).mT.reshape(x.shape),
    "mean of squares": lambda x: (x - x.mean(1, True)) / ((x * x).mean(1, True) - x.mean(1, True) ** 2 + 1e-5).sqrt(),
    "the channels moved last": lambda x: F.layer_norm(x.movedim(1, -1), x.shape[1:2]).movedim(-1, 1),
    "axes swapped": lambda x: nn.LayerNorm(x.shape[1], elementwise_affine=False)(x.transpose(1, -1)).transpose(1, -1),
    "RMSNorm": lambda x: F.rms_norm((x - x.mean(1, True)).movedim(1, -1), x.shape[1:2], eps=1e-5).movedim(-1, 1),
    "each place": lambda x: torch.stack([F.layer_norm(v, v.shape[1:]) for v in x.flatten(2).unbind(2)], 2).view_as(x),
}.items():
    right("channels_first_norm", what)(norm)
wrong("channels_first_norm", "channels and the first axis of space")(
    lambda x: (x - x.mean((1, 2), True)) / (x.var((1, 2), correction=0, keepdim=True) + 1e-5).sqrt()
)
wrong("channels_first_norm", "an eps outside of the root")(
    lambda x: (x - x.mean(1, True)) / (x.std(1, correction=0, keepdim=True) + 1e-5)
)


def forward(block, x, condition, skips=lambda layer, norm: is_bypassed(layer)):
    for name, norm in BRANCHES.items():
        layer, normed, more = getattr(block, name), getattr(block, norm), [condition] * (name == "condition_mixer")
        if not skips(layer, normed):
            x = x + block.dropout(layer(normed(x), *more))
    return x


def gathered(block, x, condition):
    parts = [x]
    for name, norm in BRANCHES.items():
        layer, more = getattr(block, name), {"condition_mixer": [condition]}.get(name, [])
        parts += [block.dropout(layer(getattr(block, norm)(sum(parts)), *more)) for _ in range(not is_bypassed(layer))]
    return torch.stack(parts).sum(0)


right("block_forward", "a loop over names")(lambda block, x, condition: forward(block, x, condition))
right("block_forward", "a copy of x at first")(lambda block, x, condition: forward(block, x.clone(), condition))
right("block_forward", "asks for nn.Identity")(partial(forward, skips=lambda layer, _: isinstance(layer, nn.Identity)))
right("block_forward", "branches gathered in a list")(gathered)
right("block_forward", "the branch first, then x")(lines(lambda block, x, normed, y: block.dropout(y).add(x)))
right("block_forward", "sample by sample")(
    lambda block, x, c: torch.cat([forward(block, x[i, None], c if c is None else c[i, None]) for i in range(len(x))])
)
wrong("block_forward", "asks the norm")(partial(forward, skips=lambda layer, norm: is_bypassed(norm)))
wrong("block_forward", "the block itself")(lambda block, x, condition: block(x, condition))

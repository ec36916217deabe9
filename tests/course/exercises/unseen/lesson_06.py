"""Answers to the exercises of lesson 06 that no list of mistakes holds."""

import torch
from torch import nn
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong
from residual_course.exercises import adaln_zero
from residual_course.exercises.mended_block import Mended
from residual_edu import LayerNorm, SimpleFeedForward


def norm(x):
    return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True, correction=0)


def branch(x, f, shift, scale, gate):
    h = norm(x).mul(1 + scale.unsqueeze(1)).add(shift.unsqueeze(1))
    return torch.addcmul(x, gate.unsqueeze(1).expand_as(x), f(h))


right("adaln_branch", "statistics by hand, without eps")(branch)
right("adaln_branch", "LayerNorm with the gain and bias that it is drawn with")(
    lambda x, f, b, s, g: x + g[:, None] * f(nn.LayerNorm(4)(x) * (1 + s[:, None]) + b[:, None])
)
right("adaln_branch", "the positions first")(
    lambda x, f, b, s, g: (x.transpose(0, 1) + g * f(norm(x.transpose(0, 1)) * (1 + s) + b)).transpose(0, 1)
)
wrong("adaln_branch", "one average condition for the batch")(
    lambda x, f, b, s, g: branch(x, f, *(one.mean(0).expand(len(x), -1) for one in (b, s, g)))
)
wrong("adaln_branch", "a norm over positions and features")(
    lambda x, f, b, s, g: x + g[:, None] * f(F.layer_norm(x, (3, 4)) * (1 + s[:, None]) + b[:, None])
)
wrong("adaln_branch", "a scale that does not learn")(lambda x, f, b, s, g: branch(x, f, b, s.detach(), g))

Block = adaln_zero.block()


def changed(**methods):
    return type("Changed", (Block,), methods)


def named(self, x, c):
    b1, s1, g1, b2, s2, g2 = self.condition_proj(c)[:, None].chunk(6, dim=-1)
    x = x + g1 * self.sequence_mixer(norm(x) * (1 + s1) + b1)
    return x + g2 * self.mlp(norm(x) * (1 + s2) + b2)


def in_a_loop(self, x, c):
    six = self.condition_proj(c).view(len(x), 2, 3, -1)
    for f, three in ((self.sequence_mixer, six[:, 0]), (self.mlp, six[:, 1])):
        x = branch(x, f, *three.unbind(1))
    return x


def awake(self, *parts):
    Block.__init__(self, *parts)
    self.condition_proj[1].bias.data.fill_(0.1)


right("adaln_zero_block", "six by name, without branch")(changed(forward=named))
right("adaln_zero_block", "a loop over two branches")(changed(forward=in_a_loop))
right("adaln_zero_block", "statistics by hand, without eps")(adaln_zero.block(branch))
wrong("adaln_zero_block", "a detached projection")(
    changed(forward=lambda self, x, c: Block.forward(self, x, c.detach()))
)
wrong("adaln_zero_block", "weights of 0, biases as they were drawn")(changed(__init__=awake))


@right("mended_block", "another block altogether")
def _(width):
    class Told(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.told = LayerNorm(width), nn.Linear(width, width)
            self.mix, self.mlp = nn.Linear(4, 4), SimpleFeedForward(width, 4 * width)

        def forward(self, x, condition):
            x = x + self.told(condition)[:, None]
            x = x + self.mix(self.norm(x).mT).mT
            return x + self.mlp(self.norm(x))

    return Told()


wrong("mended_block", "a class and no block")(lambda width: Mended)
wrong("mended_block", "a width of its own")(lambda width: Mended(32))

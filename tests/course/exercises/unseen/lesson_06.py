"""Answers to the exercises of lesson 06 that no list of mistakes holds."""

import torch
from torch import nn
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong
from residual_course.exercises import mended_block
from residual_course.exercises.adaln_zero import block, wide
from residual_edu import LayerNorm, SimpleFeedForward
from residual_edu.networks.denoiser import denoiser_block


def norm(x):
    return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True, correction=0)


def branch(x, f, shift, scale, gate):
    h = norm(x).mul(1 + scale.unsqueeze(1)).add(shift.unsqueeze(1))
    return torch.addcmul(x, gate.unsqueeze(1).expand_as(x), f(h))


for what, step in {
    "statistics by hand, without eps": branch,
    "LayerNorm as it is drawn": wide(lambda x, f, b, s, g: x + g * f(nn.LayerNorm(x.shape[-1])(x) * (1 + s) + b)),
    "a step to x + f": wide(lambda x, f, b, s, g: torch.lerp(x, x + f(torch.addcmul(norm(x) + b, norm(x), s)), g)),
    "matrices": lambda x, f, b, s, g: x + f(torch.baddbmm(b[:, None], norm(x), (1 + s).diag_embed())) @ g.diag_embed(),
    "positions first": lambda x, f, b, s, g: ((z := x.transpose(0, 1)) + g * f(norm(z) * (1 + s) + b)).transpose(0, 1),
    "by picture": lambda x, f, *bsg: torch.cat([*map(branch, x.split(1), [f] * len(x), *(v.split(1) for v in bsg))]),
}.items():
    right("adaln_branch", what)(step)
wrong("adaln_branch", "one average condition for the batch")(
    lambda x, f, b, s, g: branch(x, f, *(one.mean(0).expand(len(x), -1) for one in (b, s, g)))
)
wrong("adaln_branch", "a norm over positions and features")(
    lambda x, f, b, s, g: x + g[:, None] * f(F.layer_norm(x, (3, 4)) * (1 + s[:, None]) + b[:, None])
)
wrong("adaln_branch", "a scale that does not learn")(lambda x, f, b, s, g: branch(x, f, b, s.detach(), g))
wrong("adaln_branch", "four features alone")(
    lambda x, f, b, s, g: x + g[:, None] * f(F.layer_norm(x, (4,)) * (1 + s[:, None]) + b[:, None])
)

Block = block()


def changed(**methods):
    return type("Changed", (Block,), methods)


def in_a_loop(self, x, c):
    six = self.condition_proj(c).view(len(x), 2, 3, -1)
    for f, three in ((self.sequence_mixer, six[:, 0]), (self.mlp, six[:, 1])):
        x = branch(x, f, *three.unbind(1))
    return x


def added_last(self, x, c):
    b1, s1, g1, b2, s2, g2 = F.linear(F.silu(c[:, None]), *self.condition_proj[1].parameters()).tensor_split(6, -1)
    first = g1 * self.sequence_mixer(torch.addcmul(b1, norm(x), 1 + s1))
    return x + (first + g2 * self.mlp(torch.addcmul(b2, norm(x + first), 1 + s2)))


def begun(change):
    def init(self, *parts):
        Block.__init__(self, *parts)
        change(self.condition_proj[1])

    return changed(__init__=init)


for what, forward in {
    "a loop over two branches": in_a_loop,
    "six by name, both branches added last": added_last,
    "by picture": lambda self, x, c: torch.cat([*map(lambda *xc: Block.forward(self, *xc), x.split(1), c.split(1))]),
}.items():
    right("adaln_zero_block", what)(changed(forward=forward))
right("adaln_zero_block", "zeros anew")(begun(lambda map: setattr(map, "weight", nn.Parameter(0 * map.weight.data))))
right("adaln_zero_block", "minus 0")(begun(lambda map: [nn.init.constant_(p, -0.0) for p in map.parameters()]))
right("adaln_zero_block", "statistics by hand, without eps")(block(branch))
wrong("adaln_zero_block", "a detached projection")(
    changed(forward=lambda self, x, c: Block.forward(self, x, c.detach()))
)


@wrong("adaln_zero_block", "zeros everywhere")
class _(Block):
    def __init__(self, *parts):
        super().__init__(*parts)
        for parameter in self.parameters():
            nn.init.zeros_(parameter)


wrong("adaln_zero_block", "weights of 0, biases of 0.1")(begun(lambda map: nn.init.constant_(map.bias, 0.1)))


@right("mended_block", "another block altogether")
class _(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.told = LayerNorm(width), nn.Linear(width, width)
        self.mix, self.mlp = nn.Linear(4, 4), SimpleFeedForward(width, 4 * width)

    def forward(self, x, condition):
        x = x + self.told(condition)[:, None]
        x = x + self.mix(self.norm(x).mT).mT
        return x + self.mlp(self.norm(x))


right("mended_block", "open gates, with last layers of 0")(mended_block.changed(one=1.0, gate=1.0))
wrong("mended_block", "a width of 64, whatever dim is")(lambda dim: mended_block.Mended(64))
right("mended_block", "small last layers")(mended_block.changed(one=1.0, last=0.1))
right("mended_block", "all layers drawn anew")(
    lambda width: mended_block.Handed(width).apply(lambda part: isinstance(part, nn.Linear) and part.reset_parameters())
)
right("mended_block", "the library's block")(denoiser_block)
right("mended_block", "a projection that is drawn")(
    lambda width: (made := mended_block.Handed(width), made.condition_proj[1].reset_parameters())[0]
)
wrong("mended_block", "a class and no block")(lambda width: mended_block.Mended)
wrong("mended_block", "a width of its own")(lambda width: mended_block.Mended(32))

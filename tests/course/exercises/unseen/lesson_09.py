"""Answers to the exercises of lesson 09 that no list of mistakes holds."""

import torch
from torch import nn
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong
from residual_course.exercises.vit import Parts, made, patchify

right("patchify", "two unfolds of the tensor")(
    lambda x, p: x.unfold(2, p, p).unfold(3, p, p).movedim(1, 3).flatten(3).flatten(1, 2)
)
right("patchify", "torch's unfold")(lambda x, p: F.unfold(x, p, stride=p).mT)
right("patchify", "a pixel unshuffle")(lambda x, p: F.pixel_unshuffle(x, p).flatten(2).mT)


@wrong("patchify", "right for one channel alone")
def _(x, p):
    n, c, h, w = x.shape
    y = x.reshape(n * c, h // p, p, w // p, p).permute(0, 1, 3, 2, 4).reshape(n, c, -1, p * p)
    return y.permute(0, 2, 3, 1).flatten(2)


@wrong("patchify", "right for squares alone")
def _(x, p):
    n, c, h, w = x.shape
    return x.reshape(n, c, w // p, p, h // p, p).permute(0, 2, 4, 1, 3, 5).reshape(n, -1, c * p * p)


def by_convolution(self, x):
    weight = self.embed.weight.view(len(self.embed.weight), x.shape[1], self.patch, self.patch)
    y = F.conv2d(x, weight, self.embed.bias, stride=self.patch).flatten(2).mT + self.table
    y = torch.cat([y, self.cls.expand(len(x), -1, -1)], dim=1)
    return self.head(self.norm(nn.Sequential(*self.blocks)(y)[:, y.shape[1] - 1]))


def cls_at_rest(self, x):
    cls = self.cls.detach().expand(len(x), -1, -1)
    y = torch.cat([self.embed(patchify(x, self.patch)) + self.table, cls], dim=1)
    return self.head(self.norm(nn.Sequential(*self.blocks)(y)[:, -1]))


right("vit_forward", "the embedding as a convolution, the blocks as a Sequential")(
    type("ViT", (Parts,), {"forward": by_convolution})
)
right("vit_forward", "all tokens normalised")(made(lambda net, x: net.head(net.norm(x))[:, -1]))
right("vit_forward", "the head written out")(
    made(lambda net, x: F.linear(net.norm(x[:, -1]), net.head.weight, net.head.bias))
)
wrong("vit_forward", "token 16, wherever CLS is")(
    made(lambda net, x: net.head(net.norm(x[:, min(16, x.shape[1] - 2)])))
)
wrong("vit_forward", "a CLS token that does not learn")(type("ViT", (Parts,), {"forward": cls_at_rest}))


def network(table, louder=1):
    """With this table, and patches that are so much louder."""
    net = Parts()
    net.embed.weight.data *= louder
    net.table = nn.Parameter(table)
    return net


right("heard_positions", "an assigned table")(lambda: network(0.3 * torch.randn(1, 16, 8)))
right("heard_positions", "numbers of one distribution")(lambda: network(0.6 * torch.rand(1, 16, 8)))
wrong("heard_positions", "patches that are louder too")(lambda: network(0.3 * torch.randn(1, 16, 8), louder=20))
wrong("heard_positions", "rows alone")(lambda: network(0.3 * torch.randn(4, 1, 8).expand(4, 4, 8).reshape(1, 16, 8)))

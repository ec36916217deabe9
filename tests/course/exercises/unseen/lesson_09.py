"""Answers to the exercises of lesson 09 that no list of mistakes holds."""

import torch
from torch import nn
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong
from residual_course.exercises.vit import Parts, patchify


@right("patchify", "two unfolds of the tensor")
def _(x, p):
    return x.unfold(2, p, p).unfold(3, p, p).movedim(1, 3).flatten(3).flatten(1, 2)


@wrong("patchify", "right for one channel alone")
def _(x, p):
    n, c, h, w = x.shape
    y = x.reshape(n * c, h // p, p, w // p, p).permute(0, 1, 3, 2, 4).reshape(n, c, -1, p * p)
    return y.permute(0, 2, 3, 1).flatten(2)


@wrong("patchify", "right for squares alone")
def _(x, p):
    n, c, h, w = x.shape
    return x.reshape(n, c, w // p, p, h // p, p).permute(0, 2, 4, 1, 3, 5).reshape(n, -1, c * p * p)


@right("vit_forward", "the embedding as a convolution, the blocks as a Sequential")
class _(Parts):
    def forward(self, x):
        weight = self.embed.weight.view(len(self.embed.weight), x.shape[1], self.patch, self.patch)
        y = F.conv2d(x, weight, self.embed.bias, stride=self.patch).flatten(2).mT + self.table
        y = torch.cat([y, self.cls.expand(len(x), -1, -1)], dim=1)
        return self.head(self.norm(nn.Sequential(*self.blocks)(y)[:, y.shape[1] - 1]))


@wrong("vit_forward", "token 16, wherever CLS is")
class _(Parts):
    def forward(self, x):
        y = torch.cat([self.embed(patchify(x, self.patch)) + self.table, self.cls.expand(len(x), -1, -1)], dim=1)
        for block in self.blocks:
            y = block(y)
        return self.head(self.norm(y[:, min(16, y.shape[1] - 2)]))


@wrong("vit_forward", "a CLS token that does not learn")
class _(Parts):
    def forward(self, x):
        cls = self.cls.detach().expand(len(x), -1, -1)
        y = torch.cat([self.embed(patchify(x, self.patch)) + self.table, cls], dim=1)
        for block in self.blocks:
            y = block(y)
        return self.head(self.norm(y[:, -1]))


@right("heard_positions", "an assigned table")
def _():
    net = Parts()
    net.table = nn.Parameter(0.3 * torch.randn(1, 16, 8))
    return net


@wrong("heard_positions", "patches that are louder too")
def _():
    net = Parts()
    net.table.data *= 0.3
    net.embed.weight.data *= 20
    return net


@wrong("heard_positions", "rows alone")
def _():
    net = Parts()
    net.table.data = 0.3 * torch.randn(4, 1, 8).expand(4, 4, 8).reshape(1, 16, 8)
    return net

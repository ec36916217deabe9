"""Answers to the exercises of lesson 09 that no list of mistakes holds."""

from functools import partial

import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import nn
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong
from residual_course.exercises.vit import VIT, Parts, made, patchify

cut, vit = partial(right, "patchify"), partial(right, "vit_forward")

cut("two unfolds of the tensor")(lambda x, p: x.unfold(2, p, p).unfold(3, p, p).movedim(1, 3).flatten(3).flatten(1, 2))
cut("torch's unfold")(lambda x, p: F.unfold(x, p, stride=p).mT)
cut("a pixel unshuffle")(lambda x, p: F.pixel_unshuffle(x, p).flatten(2).mT)
cut("split twice")(lambda x, p: torch.stack([y.flatten(1) for row in x.split(p, 2) for y in row.split(p, 3)], 1))
cut("NumPy's windows")(
    lambda x, p: (
        torch.tensor(sliding_window_view(x, (len(x[0]), p, p), (1, 2, 3))[:, 0, ::p, ::p]).flatten(3).flatten(1, 2)
    )
)
cut("a convolution")(
    lambda x, p: F.conv2d(x, torch.eye(n := x[0, :, :p, :p].numel()).view(n, -1, p, p).to(x), stride=p).flatten(2).mT
)
wrong("patchify", "one channel alone")(lambda x, p: patchify(x, p).unflatten(2, (x.shape[1], -1)).mT.flatten(2))
wrong("patchify", "squares alone")(lambda x, p: patchify(x.reshape(*x.shape[:2], *x.shape[:1:-1]), p))


def forward(forward):
    return type("ViT", (Parts,), {"forward": forward})


def of(tokens):
    """The scores of these tokens, by a Sequential."""
    return forward(lambda net, x: net.head(net.norm(nn.Sequential(*net.blocks)(tokens(net, x)).unbind(1)[-1])))


def by_convolution(net, x):
    weight = net.embed.weight.unflatten(1, (-1, net.patch, net.patch))
    y = F.conv2d(x, weight, net.embed.bias, stride=net.patch).flatten(2).mT + net.table
    return torch.cat([y, net.cls.expand(len(x), -1, -1)], dim=1)


def in_place(net, x):
    y = net.cls.repeat(len(x), net.table.shape[1] + 1, 1)
    y[:, :-1] = net.embed(patchify(x, net.patch))
    y[:, :-1] += net.table
    return y


vit("the embedding as a convolution, the blocks as a Sequential")(of(by_convolution))
vit("in place, over copies of CLS")(of(in_place))
vit("padded")(of(lambda n, x: F.pad(n.embed(patchify(x, n.patch)), (0, 0, 0, 1)) + torch.hstack([n.table, n.cls])))
vit("picture by picture")(forward(lambda net, x: torch.cat([VIT.forward(net, one) for one in x.split(1)])))
vit("all tokens normalised")(made(lambda net, x: net.head(net.norm(x))[:, -1]))
vit("the head written out")(made(lambda net, x: F.linear(net.norm(x[:, -1]), net.head.weight, net.head.bias)))
wrong("vit_forward", "always token 16")(made(lambda net, x: net.head(net.norm(x[:, min(16, x.shape[1] - 2)]))))
wrong("vit_forward", "a CLS token that does not learn")(
    of(lambda net, x: torch.cat([by_convolution(net, x)[:, :-1], net.cls.detach().expand(len(x), 1, -1)], 1))
)


def heard(what, table, judged=right, louder=1, norm=nn.Identity):
    """With this table, and patches that are so much louder, or normalised."""

    @judged("heard_positions", what)
    def network():
        net = Parts()
        net.embed.weight.data *= louder
        net.embed, net.table = nn.Sequential(net.embed, norm(8)), nn.Parameter(table())
        return net


heard("an assigned table", lambda: 0.3 * torch.randn(1, 16, 8))
heard("numbers of one distribution", lambda: 0.6 * torch.rand(1, 16, 8))
heard("orthogonal columns, without an axis of size 1", lambda: nn.init.orthogonal_(torch.empty(16, 8)))
heard("waves", lambda: 0.4 * (torch.arange(16)[:, None] * 0.7 ** torch.arange(8) + 1).sin()[None])
heard("rows and columns", lambda: 0.2 * (torch.randn(4, 1, 8) + torch.randn(4, 8)).view(1, 16, 8))
heard("patches normalised, and a table of size 1", lambda: torch.randn(1, 16, 8), norm=nn.LayerNorm)
heard("patches that are louder too", lambda: 0.3 * torch.randn(1, 16, 8), wrong, louder=20)
heard("rows alone", lambda: 0.3 * torch.randn(4, 1, 8).expand(4, 4, 8).reshape(1, 16, 8), wrong)

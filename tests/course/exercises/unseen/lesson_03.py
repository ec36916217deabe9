"""Answers to the exercises of lesson 03 that no list of mistakes holds; each passed or was refused once."""

import copy

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong
from residual_course.exercises.mended_dropout import Parts, of

right("drop_path", "einsum")(lambda b, u, p: torch.einsum("i...,i->i...", b, (u >= p).double()) / (1 - p))
right("drop_path", "the samples last")(lambda b, u, p: (b.movedim(0, -1) * (u >= p) / (1 - p)).movedim(-1, 0))
right("drop_path", "sample by sample")(lambda b, u, p: torch.stack([*map(lambda x, c: x * (c >= p) / (1 - p), b, u)]))
right("drop_path", "index_fill")(lambda b, u, p: (b / (1 - p)).index_fill(0, (u < p).nonzero()[:, 0], 0))
right("drop_path", "floors")(lambda b, u, p: b.div(1 - p).mul((u + (1 - p)).floor()[(...,) + (None,) * (b.ndim - 1)]))
right("drop_path", "written into zeros")(lambda b, u, p: torch.zeros_like(b).index_put((u >= p,), b[u >= p] / (1 - p)))
wrong("drop_path", "u compared in place")(lambda b, u, p: b * u.ge_(p).view(-1, *[1] * (b.ndim - 1)) / (1 - p))
wrong("drop_path", "two axes taken for granted")(lambda b, u, p: b * (u >= p)[:, None] / (1 - p))


def gate(gated):
    """In evaluation x comes back."""
    return lambda x, p, training: gated(x, p) if training else x


right("dropout", "torch's own")(lambda x, p, training: F.dropout(x, p, training))
right("dropout", "NumPy's coins")(
    gate(lambda x, p: x * torch.tensor(np.random.default_rng().random(tuple(x.shape)) >= p) / (1 - p))
)
right("dropout", "Bernoulli's")(gate(lambda x, p: x * torch.empty_like(x).bernoulli_(1 - p) / (1 - p)))
right("dropout", "where")(gate(lambda x, p: torch.where(torch.rand(x.shape) < p, 0, x / (1 - p))))
right("dropout", "ones that were dropped")(lambda x, p, training: x * F.dropout(torch.ones_like(x), p, training))
right("dropout", "in place, on a copy")(gate(lambda x, p: x.clone().masked_fill_(torch.rand_like(x) < p, 0) / (1 - p)))
wrong("dropout", "the mask itself")(gate(lambda x, p: (torch.rand(x.shape) >= p).double()))
wrong("dropout", "detached")(gate(lambda x, p: x.detach() * (torch.rand(x.shape) >= p) / (1 - p)))
wrong("dropout", "a share of exactly p")(
    gate(lambda x, p: x * (torch.randperm(x.numel()).view(x.shape) >= p * x.numel()) / (1 - p))
)

right("mended_dropout", "modules")(of(lambda h, training: nn.Dropout().train(training)(h)))
right("mended_dropout", "coins by hand")(of(lambda h, training: 2 * h * (torch.rand_like(h) < 0.5) if training else h))
right("mended_dropout", "a rate of 0 in evaluation")(of(lambda h, training: F.dropout(h, 0.5 * training)))
right("mended_dropout", "channels of length 1")(of(lambda h, on: F.dropout1d(h[..., None], 0.5, on)[..., 0]))
right("mended_dropout", "row by row")(of(lambda h, on: torch.stack([F.dropout(row, training=on) for row in h])))


@right("mended_dropout", "modules of its own")
class _(Parts):
    def __init__(self):
        super().__init__()
        self.gate = nn.Sequential(nn.ReLU(), nn.Dropout(0.5))

    def forward(self, x):
        return self.last(self.gate(self.second(self.gate(self.first(x)))))


wrong("mended_dropout", "in place, on what a ReLU saved")(of(lambda h, training: F.dropout(h, 0.5, training, True)))
wrong("mended_dropout", "a rate of 0.3")(of(lambda h, training: F.dropout(h, 0.3, training)))


def in_evaluation(compare):
    def calm(net, x):
        mode = net.training
        try:
            return compare(net.eval(), x)
        finally:
            net.train(mode)

    return calm


@right("is_calm", "the mode in a list, and numpy")
def _(net, x):
    modes = [module.training for module in net.modules()]
    first, second = (net.eval()(x).detach().numpy() for _ in range(2))
    for module, mode in zip(net.modules(), modes, strict=True):
        module.training = mode
    return np.array_equal(first, second)


right("is_calm", "a copy")(lambda net, x: (calm := copy.deepcopy(net).eval())(x).equal(calm(x)))
right("is_calm", "NumPy's own True")(in_evaluation(torch.no_grad()(lambda net, x: np.all((net(x) == net(x)).numpy()))))
right("is_calm", "a set of outputs")(in_evaluation(lambda net, x: len({str(net(x).tolist()) for _ in "12"}) == 1))
right("is_calm", "no difference")(in_evaluation(lambda net, x: not torch.stack([net(x), net(x)]).diff(dim=0).any()))
right("is_calm", "a largest distance of 0")(in_evaluation(lambda net, x: torch.dist(net(x), net(x), p=torch.inf) == 0))
wrong("is_calm", "the seed set before each call")(
    in_evaluation(lambda net, x: torch.equal(*((torch.manual_seed(0), net(x))[1] for _ in range(2))))
)


@wrong("is_calm", "left in evaluation mode where it is not calm")
def _(net, x):
    mode = net.training
    return torch.equal(net.eval()(x), net(x)) and net.train(mode) is net

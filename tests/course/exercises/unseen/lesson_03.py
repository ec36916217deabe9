"""Answers to the exercises of lesson 03 that no list of mistakes holds; each passed or was refused once."""

import copy

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong
from residual_course.exercises.mended_dropout import of

right("drop_path", "einsum")(lambda b, u, p: torch.einsum("i...,i->i...", b, (u >= p).double()) / (1 - p))
right("drop_path", "the samples last")(lambda b, u, p: (b.movedim(0, -1) * (u >= p) / (1 - p)).movedim(-1, 0))
right("drop_path", "sample by sample")(
    lambda b, u, p: torch.stack([one / (1 - p) if coin >= p else 0 * one for one, coin in zip(b, u, strict=True)])
)
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
wrong("dropout", "the mask itself")(gate(lambda x, p: (torch.rand(x.shape) >= p).double()))
wrong("dropout", "detached")(gate(lambda x, p: x.detach() * (torch.rand(x.shape) >= p) / (1 - p)))
wrong("dropout", "a share of exactly p")(
    gate(lambda x, p: x * (torch.randperm(x.numel()).view(x.shape) >= p * x.numel()) / (1 - p))
)

right("mended_dropout", "modules")(of(lambda h, training: nn.Dropout().train(training)(h)))
right("mended_dropout", "coins by hand")(of(lambda h, training: 2 * h * (torch.rand_like(h) < 0.5) if training else h))
wrong("mended_dropout", "a rate of 0.3")(of(lambda h, training: F.dropout(h, 0.3, training)))


@right("is_calm", "the mode in a list, and numpy")
def _(net, x):
    modes = [module.training for module in net.modules()]
    first, second = (net.eval()(x).detach().numpy() for _ in range(2))
    for module, mode in zip(net.modules(), modes, strict=True):
        module.training = mode
    return np.array_equal(first, second)


right("is_calm", "a copy")(lambda net, x: (calm := copy.deepcopy(net).eval())(x).equal(calm(x)))


@wrong("is_calm", "the seed set before each call")
def _(net, x):
    mode = net.training
    first, second = ((torch.manual_seed(0), net.eval()(x))[1] for _ in range(2))
    net.train(mode)
    return torch.equal(first, second)

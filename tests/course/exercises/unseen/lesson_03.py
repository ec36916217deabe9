"""Answers to the exercises of lesson 03 that no list of mistakes holds; each passed or was refused once."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong

wrong("drop_path", "u compared in place")(
    lambda branch, u, p: branch * u.ge_(p).view(-1, *[1] * (branch.ndim - 1)) / (1 - p)
)
wrong("drop_path", "two axes taken for granted")(lambda branch, u, p: branch * (u >= p)[:, None] / (1 - p))
right("drop_path", "einsum")(lambda branch, u, p: torch.einsum("i...,i->i...", branch, (u >= p).double()) / (1 - p))


wrong("dropout", "the mask itself")(lambda x, p, training: (torch.rand(x.shape) >= p).double() if training else x)
wrong("dropout", "detached")(
    lambda x, p, training: x.detach() * (torch.rand(x.shape) >= p) / (1 - p) if training else x
)
right("dropout", "torch's own")(lambda x, p, training: F.dropout(x, p, training))
right("dropout", "NumPy's coins")(
    lambda x, p, training: (
        x * torch.from_numpy((np.random.default_rng().random(tuple(x.shape)) >= p).astype(float)) / (1 - p)
        if training
        else x
    )
)


class Net(nn.Module):
    """The layers of the network that was handed over."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(10, 256), nn.Linear(256, 256), nn.Linear(256, 1)


@right("mended_dropout", "written with modules in a list")
class _(Net):
    def forward(self, x):
        drop = nn.Dropout().train(self.training)
        for layer in (self.first, self.second):
            x = drop(layer(x).relu())
        return self.last(x)


@wrong("mended_dropout", "a rate of 0.3")
class _(Net):
    def forward(self, x):
        h = F.dropout(F.relu(self.first(x)), 0.3, self.training)
        return self.last(F.dropout(F.relu(self.second(h)), 0.3, self.training))


@right("is_calm", "the mode in a list, and numpy")
def _(net, x):
    modes = [module.training for module in net.modules()]
    first, second = (net.eval()(x).detach().numpy() for _ in range(2))
    for module, mode in zip(net.modules(), modes, strict=True):
        module.training = mode
    return np.array_equal(first, second)


@wrong("is_calm", "the seed set before each call")
def _(net, x):
    mode = net.training
    net.eval()
    outputs = []
    for _ in range(2):
        torch.manual_seed(0)
        outputs.append(net(x))
    net.train(mode)
    return torch.equal(*outputs)

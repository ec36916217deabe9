"""Answers to the exercises of lesson 03 that no list of mistakes holds; each passed or was refused once."""

import numpy as np
import torch

from residual_course.checking.tries import right, wrong

wrong("drop_path", "u compared in place")(
    lambda branch, u, p: branch * u.ge_(p).view(-1, *[1] * (branch.ndim - 1)) / (1 - p)
)
wrong("drop_path", "two axes taken for granted")(lambda branch, u, p: branch * (u >= p)[:, None] / (1 - p))
right("drop_path", "where")(
    lambda branch, u, p: torch.where((u >= p).reshape(-1, *[1] * (branch.ndim - 1)), branch / (1 - p), 0.0)
)
right("drop_path", "einsum")(lambda branch, u, p: torch.einsum("i...,i->i...", branch, (u >= p).double()) / (1 - p))


@wrong("depths_left", "the caller's list emptied")
def _(rates):
    chances = torch.ones(1, dtype=torch.float64)
    while rates:
        rate = rates.pop()
        chances = torch.cat([rate * chances, torch.zeros(1)]) + torch.cat([torch.zeros(1), (1 - rate) * chances])
    return chances


@right("depths_left", "a product of polynomials in NumPy")
def _(rates):
    chances = np.ones(1)
    for rate in rates:
        chances = np.convolve(chances, [rate, 1 - rate])
    return chances


right("survival", "a tensor")(lambda p, depth: torch.tensor(1 - p, dtype=torch.float64) ** depth)

wrong("dropout", "the mask itself")(lambda x, p, training: (torch.rand(x.shape) >= p).double() if training else x)
wrong("dropout", "detached")(
    lambda x, p, training: x.detach() * (torch.rand(x.shape) >= p) / (1 - p) if training else x
)
right("dropout", "torch.bernoulli")(
    lambda x, p, training: x * torch.bernoulli(torch.full_like(x, 1 - p)) / (1 - p) if training else x
)
right("dropout", "NumPy's coins")(
    lambda x, p, training: (
        x * torch.from_numpy((np.random.default_rng().random(tuple(x.shape)) >= p).astype(float)) / (1 - p)
        if training
        else x
    )
)
wrong("dropout_penalty", "the weights detached")(lambda x, w, p: (x * w.detach()).square().sum(-1).mean() * p / (1 - p))
wrong("dropout_penalty", "the standard deviation")(
    lambda x, w, p: ((x * w).square().sum(-1) * p / (1 - p)).sqrt().mean()
)
right("dropout_penalty", "einsum")(lambda x, w, p: torch.einsum("ni,ni,i,i->", x, x, w, w) / len(x) * p / (1 - p))

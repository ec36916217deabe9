"""Answers to the exercise of lesson 06 on training examples that no list of mistakes holds."""

import random

import numpy as np
import torch

from residual_course.checking.tries import right, wrong


@right("training_example", "picture by picture, with Python's and NumPy's random numbers")
def _(picture, label):
    rows = []
    for one, digit in zip(picture, label, strict=True):
        t = random.random()
        noise = torch.tensor(np.random.standard_normal(one.shape), dtype=torch.float32)  # noqa: NPY002
        told = 10 if random.random() < 0.1 else int(digit)
        rows.append(((1 - t) * noise + t * one, torch.tensor(t), torch.tensor(told), one - noise))
    return [torch.stack(column) for column in zip(*rows, strict=True)]


@right("training_example", "a generator of its own, a Bernoulli mask, the velocity from two points")
def _(picture, label, own=torch.Generator().manual_seed(5)):  # noqa: B008
    noise = torch.empty_like(picture).normal_(generator=own)
    t = torch.empty(len(picture)).uniform_(generator=own)
    hidden = torch.bernoulli(torch.full((len(label),), 0.1), generator=own).bool()
    x = torch.einsum("b,bij->bij", 1 - t, noise) + torch.einsum("b,bij->bij", t, picture)
    return x, t, torch.where(hidden, torch.tensor(10), label), (picture - x) / (1 - t).view(-1, 1, 1)


def made(picture, label, noise=None, t=None, hide=None):
    noise = torch.randn_like(picture) if noise is None else noise
    t = torch.rand(len(picture)) if t is None else t
    hide = torch.rand(len(label)) < 0.1 if hide is None else hide
    return noise.lerp(picture, t[:, None, None]), t, label.masked_fill(hide, 10), picture - noise


wrong("training_example", "one coin for the batch")(
    lambda p, y: made(p, y, hide=(torch.rand(1) < 0.1).expand(len(y)))  #
)
wrong("training_example", "the zeros hidden, and no other label")(lambda p, y: made(p, y, hide=y == 0))

"""Answers to the exercises of lesson 02 that no list of mistakes holds; each passed or was refused once."""

import torch
from torch.nn import functional

from residual_course.checking.tries import right, wrong

wrong("center_and_scale", "squares less the square of the mean")(
    lambda x, eps=1e-5: (
        (x - x.mean(-1, keepdim=True))
        / ((x.square().mean(-1, keepdim=True) - x.mean(-1, keepdim=True).square()).clamp(min=0) + eps).sqrt()
    )
)
wrong("center_and_scale", "another default of eps")(lambda x, eps=1e-6: functional.layer_norm(x, x.shape[-1:], eps=eps))


@right("layer_norm_backward", "autograd itself")
def _(grad, x, weight, eps=1e-5):
    leaf = x.detach().clone().requires_grad_()
    return torch.autograd.grad(functional.layer_norm(leaf, x.shape[-1:], weight, eps=eps), leaf, grad)[0]


@wrong("layer_norm_backward", "eps left out of the call")
def _(grad, x, weight, eps=1e-5):
    leaf = x.detach().clone().requires_grad_()
    return torch.autograd.grad(functional.layer_norm(leaf, x.shape[-1:], weight), leaf, grad)[0]


right("one_by_one", "a list of rows")(lambda net, x: [net(row[None]).squeeze(0) for row in x])


@wrong("one_by_one", "each row with a row of zeros")
def _(net, x):
    return torch.cat([net(torch.stack([row, 0 * row]))[:1] for row in x])


@wrong("one_by_one", "rows without the batch's axis")
def _(net, x):
    return torch.stack([net(row) for row in x])


@right("mended_norm", "squares less the square of the mean, far from rounding")
def _(x):
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / (x.square().mean(-1, keepdim=True) - mean.square() + 1e-5).sqrt()


@wrong("mended_norm", "an eps outside")
def _(x):
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, correction=0, keepdim=True) + 1e-5)

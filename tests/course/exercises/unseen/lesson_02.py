"""Answers to the exercises of lesson 02 that no list of mistakes holds; each passed or was refused once."""

import torch
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong


def mean(x):
    return x.mean(-1, keepdim=True)


def by_squares(x, eps=1e-5):
    return (x - mean(x)) / ((mean(x * x) - mean(x) ** 2).clamp(min=0) + eps).sqrt()


def pulled_back(grad, x, weight, **eps):
    """By autograd itself."""
    leaf = x.detach().clone().requires_grad_()
    return torch.autograd.grad(F.layer_norm(leaf, x.shape[-1:], weight, **eps), leaf, grad)[0]


right("center_and_scale", "torch's own")(lambda x, eps=1e-5: F.layer_norm(x, x.shape[-1:], eps=eps))
right("center_and_scale", "an RMS norm of what is centred")(
    lambda x, eps=1e-5: F.rms_norm(x - mean(x), x.shape[-1:], eps=eps)
)
right("center_and_scale", "rsqrt")(lambda x, eps=1e-5: (c := x - mean(x)) * (mean(c * c) + eps).rsqrt())
wrong("center_and_scale", "squares less the square of the mean")(by_squares)
wrong("center_and_scale", "another default of eps")(lambda x, eps=1e-6: F.layer_norm(x, x.shape[-1:], eps=eps))

right("layer_norm_backward", "autograd itself")(lambda grad, x, w, eps=1e-5: pulled_back(grad, x, w, eps=eps))
right("layer_norm_backward", "torch.func")(
    lambda grad, x, w, eps=1e-5: torch.func.vjp(lambda x: F.layer_norm(x, x.shape[-1:], w, eps=eps), x)[1](grad)[0]
)
wrong("layer_norm_backward", "eps left out of the call")(lambda grad, x, w, eps=1e-5: pulled_back(grad, x, w))

right("one_by_one", "a list of rows")(lambda net, x: [net(row[None]).squeeze(0) for row in x])
right("one_by_one", "rows split off")(lambda net, x: torch.cat([net(row) for row in x.split(1)]))
right("one_by_one", "map")(lambda net, x: torch.vstack([*map(net, x.unsqueeze(1))]))
wrong("one_by_one", "each row with a row of zeros")(
    lambda net, x: torch.cat([net(torch.stack([row, 0 * row]))[:1] for row in x])
)
wrong("one_by_one", "rows without the batch's axis")(lambda net, x: torch.stack([net(row) for row in x]))

right("mended_norm", "squares less the square of the mean, far from rounding")(
    lambda x: (x - mean(x)) / (mean(x * x) - mean(x) ** 2 + 1e-5).sqrt()
)
right("mended_norm", "an RMS norm of what is centred")(lambda x: F.rms_norm(x - mean(x), x.shape[-1:], eps=1e-5))
wrong("mended_norm", "an eps outside")(lambda x: (x - mean(x)) / (x.std(-1, correction=0, keepdim=True) + 1e-5))
wrong("mended_norm", "without a gradient")(lambda x: F.layer_norm(x.detach(), x.shape[-1:]))

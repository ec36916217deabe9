"""Answers to the exercises of lesson 02 that no list of mistakes holds; each passed or was refused once."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from residual_course.checking.tries import right, wrong
from residual_course.exercises.layer_norm_backward import pulled
from residual_course.exercises.mended_norm import over


def mean(x):
    return x.mean(-1, keepdim=True)


def by_squares(x, eps=1e-5):
    return (x - mean(x)) / ((mean(x * x) - mean(x) ** 2).clamp(min=0) + eps).sqrt()


def pulled_back(grad, x, weight, **eps):
    """By autograd itself."""
    leaf = x.detach().clone().requires_grad_()
    return torch.autograd.grad(F.layer_norm(leaf, x.shape[-1:], weight, **eps), leaf, grad)[0]


def by_numpy(g, y, s):
    return (g - g.mean(-1, keepdims=True) - y * (g * y).mean(-1, keepdims=True)) / s


right("center_and_scale", "torch's own")(lambda x, eps=1e-5: F.layer_norm(x, x.shape[-1:], eps=eps))
right("center_and_scale", "an RMS norm, centred")(lambda x, eps=1e-5: F.rms_norm(x - mean(x), x.shape[-1:], eps=eps))
right("center_and_scale", "rsqrt")(lambda x, eps=1e-5: (c := x - mean(x)) * (mean(c * c) + eps).rsqrt())
right("center_and_scale", "in float64")(lambda x, eps=1e-5: F.layer_norm(x.double(), x.shape[-1:], eps=eps).to(x))
right("center_and_scale", "a module made anew")(lambda x, eps=1e-5: nn.LayerNorm(x.shape[-1:], eps, False)(x))
right("center_and_scale", "one group")(lambda x, eps=1e-5: F.group_norm(x.view(-1, x.shape[-1]), 1, eps=eps).view_as(x))
wrong("center_and_scale", "squares less the square of the mean")(by_squares)
wrong("center_and_scale", "another default of eps")(lambda x, eps=1e-6: F.layer_norm(x, x.shape[-1:], eps=eps))

right("layer_norm_backward", "autograd itself")(lambda grad, x, w, eps=1e-5: pulled_back(grad, x, w, eps=eps))
right("layer_norm_backward", "torch.func")(
    lambda grad, x, w, eps=1e-5: torch.func.vjp(lambda x: F.layer_norm(x, x.shape[-1:], w, eps=eps), x)[1](grad)[0]
)
right("layer_norm_backward", "the mean at the end")(pulled(lambda g, y, s: (c := (g - y * mean(g * y)) / s) - mean(c)))
right("layer_norm_backward", "in place, on g")(pulled(lambda g, y, s: g.sub_(mean(g) + y * mean(g * y)).div_(s)))
right("layer_norm_backward", "NumPy")(pulled(lambda *parts: torch.from_numpy(by_numpy(*map(np.asarray, parts)))))
right("layer_norm_backward", "addcmul")(pulled(lambda g, y, s: (g - mean(g)).addcmul(y, -mean(g * y)) / s))
wrong("layer_norm_backward", "eps left out of the call")(lambda grad, x, w, eps=1e-5: pulled_back(grad, x, w))

right("one_by_one", "a list of rows")(lambda net, x: [net(row[None]).squeeze(0) for row in x])
right("one_by_one", "rows split off")(lambda net, x: torch.cat([net(row) for row in x.split(1)]))
right("one_by_one", "map")(lambda net, x: torch.vstack([*map(net, x.unsqueeze(1))]))
right("one_by_one", "vmap")(lambda net, x: torch.vmap(lambda row: net(row[None])[0])(x))
right("one_by_one", "a loader")(lambda net, x: torch.cat([*map(net, DataLoader(x))]))
right("one_by_one", "in evaluation")(lambda net, x: torch.cat([net.eval()(row.view(1, 64)) for row in x.unbind()]))
wrong("one_by_one", "zeros beside each row")(lambda net, x: torch.cat([net(torch.stack([r, 0 * r]))[:1] for r in x]))
wrong("one_by_one", "rows without the batch's axis")(lambda net, x: torch.stack([net(row) for row in x]))

right("mended_norm", "squares less the square of the mean, far from rounding")(by_squares)
right("mended_norm", "an RMS norm of what is centred")(lambda x: F.rms_norm(x - mean(x), x.shape[-1:], eps=1e-5))
right("mended_norm", "rows that are columns")(lambda x: over(0)(x.movedim(-1, 0)).movedim(0, -1))
right("mended_norm", "row by row")(lambda x: torch.stack([*map(over(0), x.reshape(-1, x.shape[-1]))]).view_as(x))
right("mended_norm", "instance_norm")(lambda x: F.instance_norm(x.reshape(1, -1, x.shape[-1])).view_as(x))
right("mended_norm", "in place")(lambda x: (x - mean(x)).div_((x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt_()))
wrong("mended_norm", "an eps outside")(lambda x: (x - mean(x)) / (x.std(-1, correction=0, keepdim=True) + 1e-5))
wrong("mended_norm", "without a gradient")(lambda x: F.layer_norm(x.detach(), x.shape[-1:]))
wrong("mended_norm", "four features alone")(lambda x: F.layer_norm(x, (4,)))

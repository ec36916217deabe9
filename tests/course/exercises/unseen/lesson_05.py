"""Answers to the exercises of lesson 05 that no list of mistakes holds."""

import torch
from torch import nn

from residual_course.checking.tries import right, wrong
from residual_course.exercises.silent_branches import picks, start
from residual_edu import LayerScale

right("gate_gradients", "NumPy")(
    lambda g, b, gamma: ((g * gamma).numpy(), (g * b).numpy().reshape(-1, len(gamma)).sum(0))
)
right("gate_gradients", "einsum")(lambda g, b, gamma: [g * gamma, torch.einsum("...c,...c->c", g, b)])
wrong("gate_gradients", "the branch overwritten")(lambda g, b, gamma: (g * gamma, b.mul_(g).flatten(0, -2).sum(0)))
wrong("gate_gradients", "by autograd")(
    lambda g, b, gamma: torch.autograd.grad(
        (leaves := (b.clone().requires_grad_(), gamma.clone().requires_grad_()))[0] * leaves[1], leaves, g
    )
)


def scale(**methods):
    return type("Scale", (LayerScale,), methods)


def whole(self, dim, init_value=1e-4):
    LayerScale.__init__(self, dim)
    self.gamma = nn.Parameter(torch.full((dim,), init_value))


right("layer_scale", "einsum")(scale(forward=lambda self, x: torch.einsum("...c,c->...c", x, self.gamma)))
right("layer_scale", "a diagonal matrix")(scale(forward=lambda self, x: x @ self.gamma.diag()))
wrong("layer_scale", "a whole number makes whole gates")(scale(__init__=whole))
wrong("layer_scale", "a gate in training alone")(scale(forward=lambda self, x: x * self.gamma if self.training else x))

right("asleep", "the largest is 0")(picks(lambda p, g: g.abs().max() == 0))
right("asleep", "nothing to count")(picks(lambda p, g: g.count_nonzero() == 0))
wrong("asleep", "gates alone")(picks(lambda p, g: p.ndim == 1 and len(p) == 64 and not g.any() and not p.any()))


@wrong("asleep", "a dict of sizes")
def _(block, loss):
    loss.backward()
    return {name: p.grad.norm() for name, p in block.named_parameters()}


@right("asleep", "without backward(), by autograd.grad")
def _(block, loss):
    names, parameters = zip(*block.named_parameters(), strict=True)
    found = torch.autograd.grad(loss, parameters)
    return [name for name, gradient in zip(names, found, strict=True) if gradient.eq(0).all()]


@right("asleep", "the keys of a dict, in another order")
def _(block, loss):
    loss.backward()
    sizes = {name: p.grad.norm().item() for name, p in block.named_parameters()}
    return {name for name in sorted(sizes, reverse=True) if sizes[name] == 0}


@right("mended_start", "a last layer of 0, through .data, gates of different sizes")
def _(block):
    block.f.linear2.weight.data *= 0
    block.f.linear2.bias.data *= 0
    block.gate.gamma.data = torch.linspace(0.1, 1, 64)
    return block


right("mended_start", "a last layer of 0 alone")(start(last=0))


@wrong("mended_start", "a gate of 0 for half of the channels")
def _(block):
    block.gate.gamma.data[::2] = 0


@wrong("mended_start", "a frozen last layer")
def _(block):
    for parameter in block.f.linear2.parameters():
        nn.init.zeros_(parameter).requires_grad_(False)

"""Answers to the exercises of lesson 05 that no list of mistakes holds."""

import math

import numpy as np
import torch
from torch import nn

from residual_course.checking.tries import right, wrong


@wrong("gate_gradients", "by autograd")
def _(upstream, branch, gamma):
    leaves = branch.clone().requires_grad_(), gamma.clone().requires_grad_()
    return torch.autograd.grad(leaves[0] * leaves[1], leaves, upstream)


wrong("gate_gradients", "the branch overwritten")(
    lambda upstream, branch, gamma: (upstream * gamma, branch.mul_(upstream).flatten(0, -2).sum(0))
)
right("gate_gradients", "NumPy")(
    lambda upstream, branch, gamma: (
        (upstream * gamma).numpy(),
        (upstream * branch).numpy().reshape(-1, len(gamma)).sum(0),
    )
)
right("which_never_wakes", "with a full stop")(lambda: "C.")


class Scale(nn.Module):
    def __init__(self, dim, init_value=1e-4):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((dim,), float(init_value)))

    def forward(self, x):
        return x * self.gamma


@wrong("layer_scale", "a whole number makes whole gates")
class _(Scale):
    def __init__(self, dim, init_value=1e-4):
        super().__init__(dim)
        self.gamma = nn.Parameter(torch.full((dim,), init_value))


@wrong("layer_scale", "a gate in training alone")
class _(Scale):
    def forward(self, x):
        return x * self.gamma if self.training else x


@right("layer_scale", "einsum")
class _(Scale):
    def forward(self, x):
        return torch.einsum("...c,c->...c", x, self.gamma)


def sorting(rule, entries=nn.Module.named_parameters):
    def sort(model):
        found = [(name, rule(parameter)) for name, parameter in entries(model)]
        return [name for name, decays in found if decays], [name for name, decays in found if not decays]

    return sort


wrong("sort_parameters", "a matrix of one row spared")(sorting(lambda p: sum(n > 1 for n in p.shape) > 1))
wrong("sort_parameters", "buffers too")(sorting(lambda p: p.ndim > 1, lambda model: model.state_dict().items()))
right("sort_parameters", "sets")(lambda model: tuple(set(names) for names in sorting(lambda p: p.ndim > 1)(model)))


@right("total_move", "NumPy, over all blocks at once")
def _(place, depth, gate, move):
    before = np.arange(depth) * gate**2 * (place == "pre")
    return (gate * move / np.sqrt(1 + before)).sum()


@right("total_move", "a tensor")
def _(place, depth, gate, move):
    squares = torch.ones(depth).double()
    if place == "pre":
        squares += gate**2 * torch.arange(depth)
    return (gate * move / squares.sqrt()).sum()


@wrong("total_move", "an integral in the place of the sum")
def _(place, depth, gate, move):
    return 2 * move / gate * (math.sqrt(1 + depth * gate**2) - 1) if place == "pre" else depth * gate * move


@wrong("total_move", "the last stream for every block")
def _(place, depth, gate, move):
    return depth * gate * move / math.sqrt(1 + depth * gate**2 if place == "pre" else 1)


right("without_gate", "a tensor")(lambda g, rate: torch.tensor([g, g * g * rate], dtype=torch.float64).tolist())
right("without_gate", "from one step, measured")(
    lambda g, rate: (g, rate * (g * (1 - (1 - g)))),
)
wrong("without_gate", "one number")(lambda g, rate: g * g * rate)
wrong("without_gate", "a start of g²")(lambda g, rate: (g * g, g * g * rate))


@wrong("mended_blocks", "everything drawn anew: PyTorch's weights")
def _(blocks):
    for block in blocks:
        block.first.reset_parameters()
        block.second.reset_parameters()


@wrong("mended_blocks", "every tensor of the branch, all well chosen")
def _(blocks):
    for block in blocks:
        for layer in (block.first, block.second):
            nn.init.normal_(layer.weight, std=0.15)
            nn.init.zeros_(layer.bias)
        nn.init.constant_(block.gate, 0.1)


@right("mended_blocks", "new parameters")
def _(blocks):
    for block in blocks:
        block.gate = nn.Parameter(torch.full((64,), 1e-4))
        block.first.bias = nn.Parameter(torch.zeros(64))


@right("mended_blocks", "through .data, negative gates, some of the units")
def _(blocks):
    for block in blocks:
        block.gate.data -= 0.3
    for block in blocks[1::2]:
        block.first.bias.data[::2] = 0.1


@right("mended_blocks", "found by looking: what is below 0 in a bias, and gates that are 0")
def _(blocks):
    for block in blocks:
        if not block.gate.any():
            block.gate.data += 0.05
        block.first.bias.data.clamp_(min=0)


@right("mended_blocks", "PyTorch's last layers by weight alone")
def _(blocks):
    for place, block in enumerate(blocks):
        nn.init.uniform_(block.second.weight, -1 / 8, 1 / 8)
        if place % 2:
            nn.init.uniform_(block.first.bias, -1 / 8, 1 / 8)


@right("mended_blocks", "first weights so large that they reach over the bias")
def _(blocks):
    for place, block in enumerate(blocks):
        nn.init.constant_(block.gate, 0.03)
        if place % 2:
            block.first.weight.data *= 10

"""Answers to the exercises of lesson 05 that no list of mistakes holds."""

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


@wrong("asleep", "the gates alone")
def _(block, loss):
    loss.backward()
    return [name for name, p in block.named_parameters() if "gamma" in name and not p.grad.any()]


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


@wrong("mended_start", "a gate of 0 for half of the channels")
def _(block):
    block.gate.gamma.data[::2] = 0


@wrong("mended_start", "a frozen last layer")
def _(block):
    for parameter in block.f.linear2.parameters():
        nn.init.zeros_(parameter).requires_grad_(False)

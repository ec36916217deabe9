"""Stacks to record, their sizes by autograd, and the number of hooks on them."""

import torch
from torch import nn

from residual_edu.gradient_flow import GradientFlowRecorder

QUANTITIES = ["activation", "added", "stream_gradient", "skip_gradient", "branch_gradient", "weight_gradient"]


class Block(nn.Module):
    """x + tanh(W x), in place or not, and in whatever wrapping."""

    def __init__(self, width=4, wrap=lambda y: y, in_place=False):
        super().__init__()
        self.linear, self.wrap, self.in_place = nn.Linear(width, width), wrap, in_place

    def branch(self, x):
        return torch.tanh(self.linear(2 * x))  # 2 * x keeps no x for the backward pass, so x may be written over

    def forward(self, x):
        branch = self.branch(x)
        return self.wrap(x.add_(branch) if self.in_place else x + branch)


class Stack(nn.Module):
    """Blocks one after another; ``run`` calls a block."""

    def __init__(self, *blocks, run=lambda block, x: block(x)):
        super().__init__()
        self.stem = nn.Linear(3, 4)
        self.blocks = nn.ModuleList(blocks)
        self.run = run

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = self.run(block, x)
        return x


def stack(*, depth=3, run=lambda block, x: block(x), **options):
    return Stack(*(Block(**options) for _ in range(depth)), run=run).double()


def loss(model, x):
    return (model(x) * torch.linspace(-1, 2, 4, dtype=x.dtype)).sum()


def rms(x):
    return x.detach().double().square().mean().sqrt()


def expected(model, x):
    """Every quantity of one step, by autograd through the branches alone: nothing is subtracted."""
    stream = [model.stem(x)]
    added = []
    for block in model.blocks:
        added.append(block.branch(stream[-1]))
        stream.append(stream[-1] + added[-1])
    total = (stream[-1] * torch.linspace(-1, 2, 4, dtype=x.dtype)).sum()
    gradients = torch.autograd.grad(total, stream, retain_graph=True)
    through_branches = []
    for block, entering, leaving in zip(model.blocks, stream[:-1], gradients[1:], strict=True):
        alone = entering.detach().requires_grad_()
        through_branches += torch.autograd.grad(block.branch(alone), alone, leaving)
    weights = [
        torch.cat([g.flatten() for g in torch.autograd.grad(total, list(block.parameters()), retain_graph=True)])
        for block in model.blocks
    ]
    found = {
        "activation": stream,
        "added": added,
        "stream_gradient": gradients,
        "skip_gradient": gradients[1:],
        "branch_gradient": through_branches,
        "weight_gradient": weights,
    }
    return {name: torch.stack([rms(value) for value in values]) for name, values in found.items()}


def record(model, x, steps=1):
    with GradientFlowRecorder(model, model.blocks) as flow:
        for _ in range(steps):
            model.zero_grad()
            loss(model, x).backward()
    return flow


def same(flow, want, row=-1, names=QUANTITIES):
    for name in names:
        torch.testing.assert_close(getattr(flow, name)[row], want[name], rtol=1e-12, atol=1e-12, msg=name)


def hooks(model, *tensors):
    """The number of hooks of any kind on the modules and tensors."""
    kinds = ["_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"]
    on_modules = sum(len(getattr(module, kind)) for module in model.modules() for kind in kinds)
    kinds = ["_backward_hooks", "_post_accumulate_grad_hooks"]
    held = [*model.parameters(), *tensors]
    return on_modules + sum(len(getattr(tensor, kind) or ()) for tensor in held for kind in kinds)

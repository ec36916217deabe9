"""Answers to the exercises of lesson 01 that no list of mistakes holds; each passed or was refused once."""

import copy
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from residual_course.checking.tries import right, wrong

wrong("weight_gradient", "the axis of one output squeezed away")(lambda x, delta: (delta.T @ x).squeeze())
wrong("weight_gradient", "turned in place")(lambda x, delta: delta.t_() @ x)
right("weight_gradient", "tensordot")(lambda x, delta: torch.tensordot(delta, x, dims=([0], [0])))
right("weight_gradient", "added up in float32")(lambda x, delta: (delta.T @ x).float())


@wrong("stream_gradients", "a graph for every block")
def _(blocks, x, loss):
    found = []
    for place in range(len(blocks)):
        end = x
        for at, block in enumerate(blocks):
            end = block(end)
            if at == place:
                found.append(end)
    return [torch.autograd.grad(loss(end), end)[0].square().mean().sqrt().item() for end in found]


@wrong("stream_gradients", "x asks for a gradient")
def _(blocks, x, loss):
    x.requires_grad_()
    return rms_after(blocks, x, loss)


def rms_after(blocks, x, loss):
    places = []
    for block in blocks:
        x = block(x)
        x.retain_grad()
        places.append(x)
    loss(x).backward()
    return [place.grad.square().mean().sqrt() for place in places]


right("stream_gradients", "numbers as tensors")(rms_after)
right("stream_gradients", "a tuple from NumPy")(
    lambda blocks, x, loss: tuple(np.array([size.item() for size in rms_after(blocks, x, loss)]))
)
wrong("third_curve", "the ReLU twice")(
    lambda s, g, batch, k: [batch**0.5 * each * a * b / 8**0.5 for a, b, each in zip(s, g[1:], k, strict=False)]
)
wrong("third_curve", "one place too many")(
    lambda s, g, batch, k: [batch**0.5 * each * a * b / 2 for a, b, each in zip(s, g, [*k, 1], strict=True)]
)
right("third_curve", "in NumPy")(
    lambda s, g, batch, k: np.sqrt(batch) / 2 * np.array(s)[:-1] * np.array(g)[1:] * np.array(k)
)
wrong("mended_network", "a head alone")(lambda depth: nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 10)))
right("mended_network", "branches that begin at zero")(lambda depth: repaired(depth))


def repaired(depth):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.f = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
            nn.init.zeros_(self.f[3].weight)

        def forward(self, x):
            return x + self.f(x)

    return nn.Sequential(*[Block() for _ in range(depth)], nn.LayerNorm(64), nn.Linear(64, 10))


class Mended(nn.Module):
    """keep · x + part · f(norm(x)), with He's weights or PyTorch's."""

    def __init__(self, keep, part, he=True, norm=nn.LayerNorm):
        super().__init__()
        self.f = nn.Sequential(norm(64), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
        self.keep, self.part = keep, nn.Parameter(torch.tensor(part))
        for layer, gain in ((self.f[1], 2), (self.f[3], 1)) if he else ():
            nn.init.normal_(layer.weight, std=(gain / layer.in_features) ** 0.5)

    def forward(self, x):
        return self.keep * x + self.part * self.f(x)


def mend(keep, part, net=nn.Sequential, **options):
    return lambda depth: net(
        *[Mended(keep, part, **options) for _ in range(depth)], nn.LayerNorm(64), nn.Linear(64, 10)
    )


class Named(nn.Sequential):
    pass


right("mended_network", "one gate for each block, learned")(mend((1 - 0.02) ** 0.5, 0.02**0.5))
right("mended_network", "gates that know the depth")(lambda depth: mend(1.0, depth**-0.5)(depth))
right("mended_network", "no norm before f, a Sequential of its own name")(mend(0.98, 0.2, net=Named, norm=nn.Identity))
wrong("mended_network", "the branch as it is, PyTorch's weights")(mend(1.0, 1.0, he=False))


def watching(hook, before=lambda block: None):
    """Return an answer that registers ``hook(sizes)`` on each block after ``before(block)``."""

    @contextmanager
    def watch(blocks):
        sizes = []
        for block in blocks:
            before(block)
        handles = [block.register_forward_hook(hook(sizes)) for block in blocks]
        try:
            yield sizes
        finally:
            for handle in handles:
                handle.remove()

    return watch


def measure(sizes):
    return lambda block, args, output: sizes.append(output.detach().square().mean().sqrt().item())


def hand_on_detached(sizes):
    return lambda block, args, output: (measure(sizes)(block, args, output), output.detach())[1]


wrong("watch_activations", "a hook that hands on a detached output")(watching(hand_on_detached))
wrong("watch_activations", "blocks left in evaluation")(watching(measure, before=nn.Module.eval))


@right("watch_activations", "a class")
class Watch:
    def __init__(self, blocks):
        self.blocks, self.sizes = blocks, []

    def __enter__(self):
        self.handles = [block.register_forward_hook(measure(self.sizes)) for block in self.blocks]
        return self.sizes

    def __exit__(self, *error):
        for handle in self.handles:
            handle.remove()


@wrong("branch_gradient", "x asked for a gradient")
def _(block, x, g_out):
    return torch.autograd.grad(block(x.requires_grad_()), x, g_out)[0] - g_out


@wrong("branch_gradient", "g_out used up")
def _(block, x, g_out):
    leaf = x.detach().clone().requires_grad_()
    return torch.autograd.grad(block(leaf), leaf, g_out)[0].sub_(g_out) if not g_out.neg_().any() else g_out


@right("branch_gradient", "a transposed Jacobian")
def _(block, x, g_out):
    return torch.autograd.functional.vjp(block, x, g_out)[1] - g_out


right("branch_gradient", "backward on a copy")(
    lambda block, x, g_out: (
        leaf := copy.deepcopy(x).requires_grad_(),
        block(leaf).backward(g_out),
        leaf.grad - g_out,
    )[2]
)
wrong("update_ratio", "norms over the last axis")(lambda a, b: (b - a).norm(dim=-1).mean() / a.norm(dim=-1).mean())
right("update_ratio", "a NumPy number")(
    lambda a, b: np.sqrt(np.mean((b - a).numpy() ** 2)) / np.sqrt(np.mean(a.numpy() ** 2))
)

"""Answers to the exercises of lessons 04 and 05 that no list of mistakes holds."""

import torch
from torch import nn
from torch.nn.functional import layer_norm

from residual_edu.exercises.tries import right, wrong


@wrong("two_branches", "sums in place, after a copy")
def _(x, attention, feed_forward, norm_1, norm_2):
    x = x.clone()
    x += attention(norm_1(x))
    x += feed_forward(norm_2(x))
    return x


@wrong("two_branches", "added to what the first branch returned")
def _(x, attention, feed_forward, norm_1, norm_2):
    out = attention(norm_1(x))
    out += x
    return out + feed_forward(norm_2(out))


wrong("two_branches", "the first sum detached for the second branch")(
    lambda x, a, f, n1, n2: (h := x + a(n1(x))) + f(n2(h.detach()))
)
wrong("two_branches", "no gradient at all")(torch.no_grad()(lambda x, a, f, n1, n2: (h := x + a(n1(x))) + f(n2(h))))
right("two_branches", "a loop")(
    lambda x, *parts: [x := x + layer(norm(x)) for layer, norm in zip(parts[:2], parts[2:], strict=True)][-1]
)
right("which_placement", "a tuple")(lambda: ("pre", "neither", "post", "pre"))
right("which_placement", "capitals and line ends")(lambda: "PRE\nNEITHER\nPOST\nPRE\n")


def same(a, b):
    return torch.allclose(a, b, atol=1e-4)


def is_post(y):
    return same(y, layer_norm(y, y.shape[-1:]))


def branch(block, x):
    return block(x) - x


wrong("placement_of", "pre by a shift alone")(
    lambda block, x: (
        "post" if is_post(block(x)) else "pre" if same(branch(block, x + 3), branch(block, x)) else "neither"
    )
)
wrong("placement_of", "post by the size of a row")(
    lambda block, x: (
        "post"
        if same(block(x).square().mean(-1), torch.ones(len(x)).double())
        else "pre"
        if same(branch(block, 2 * x + 3), branch(block, x))
        else "neither"
    )
)


@wrong("placement_of", "x scaled in place")
def _(block, x):
    y, before = block(x), x.clone()
    x *= 2
    return "post" if is_post(y) else "pre" if same(block(x) - x, y - before) else "neither"


@wrong("final_norm", "the last norm popped")
def _(x, layers, norms, head):
    last = norms.pop()
    for layer, norm in zip(layers, norms, strict=True):
        x = x + layer(norm(x))
    return head(last(x))


@wrong("final_norm", "sums in place")
def _(x, layers, norms, head):
    x = x.clone()
    for layer, norm in zip(layers, norms, strict=False):
        x += layer(norm(x))
    return head(norms[-1](x))


@wrong("final_norm", "the head reads a detached stream")
def _(x, layers, norms, head):
    for layer, norm in zip(layers, norms, strict=False):
        x = x + layer(norm(x))
    return head(norms[-1](x).detach())


@right("final_norm", "by index")
def _(x, layers, norms, head):
    for i in range(len(layers)):
        x = torch.add(x, layers[i](norms[i](x)))
    return head(norms[len(layers)](x))


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


@wrong("layer_scale", "a gate read through .data")
class _(Scale):
    def forward(self, x):
        return x * self.gamma.data


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
wrong("sort_parameters", "large ones decay")(sorting(lambda p: p.numel() > 4))
wrong("sort_parameters", "frozen ones left out")(
    sorting(lambda p: p.ndim > 1, lambda model: [(n, p) for n, p in model.named_parameters() if p.requires_grad])
)
wrong("sort_parameters", "what is spared is frozen")(sorting(lambda p: p.requires_grad_(p.ndim > 1).requires_grad))
right("sort_parameters", "sets")(lambda model: tuple(set(names) for names in sorting(lambda p: p.ndim > 1)(model)))

"""Answers to the exercises of lessons 04 to 07 that no list of mistakes holds."""

from functools import partial
from inspect import signature

import torch
from torch import nn
from torch.nn.functional import layer_norm

from residual_edu import is_bypassed
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


@wrong("modulate", "in place on what the norm returns")
def _(x, norm, shift, scale):
    shape = (len(x), *[1] * (x.ndim - 2), -1)
    return norm(x).mul_(1 + scale.view(shape)).add_(shift.view(shape))


@wrong("modulate", "a scale that does not learn")
def _(x, norm, shift, scale):
    shape = (len(x), *[1] * (x.ndim - 2), -1)
    return norm(x) * (1 + scale.data.view(shape)) + shift.view(shape)


@right("modulate", "axes moved")
def _(x, norm, shift, scale):
    moved = norm(x).movedim(0, -2)
    return (moved * (1 + scale) + shift).movedim(-2, 0)


def adaln(x, condition, projection, norm, mixer, mlp, add=torch.add):
    six = projection(condition)[:, None].chunk(6, dim=-1)
    for f, (shift, scale, gate) in ((mixer, six[:3]), (mlp, six[3:])):
        x = add(x, gate * f(norm(x) * (1 + scale) + shift))
    return x


wrong("adaln_zero_forward", "sums in place, after a copy")(
    lambda x, *parts: adaln(x.clone(), *parts, add=torch.Tensor.add_)
)
wrong("adaln_zero_forward", "a detached projection")(
    lambda x, c, projection, *parts: adaln(x, c, lambda c: projection(c).detach(), *parts)
)
wrong("adaln_zero_forward", "nothing done while all gates are 0")(
    lambda x, c, projection, *parts: adaln(x, c, projection, *parts) if projection(c).any() else x
)
right("adaln_zero_forward", "the library's order of words")(
    lambda x, c, projection, norm, mixer, mlp: adaln(x, c, projection, norm, mixer, mlp)
)
right("wake_up_steps", "a list of texts")(lambda: ["1", "2", "2", "1", "2", "0"])
right("wake_up_steps", "a number")(lambda: 122120)
wrong("wake_up_steps", "a number with a leading 0 lost")(lambda: 22120)


def by_own_signature(target, **keywords):
    signature(target.__init__).bind_partial(None, **keywords)
    return partial(target, **keywords)


def by_all_names(target, **keywords):
    if set(keywords) - set(signature(target).parameters):
        raise TypeError(keywords)
    return partial(target, **keywords)


def on_trial(target, **keywords):
    try:
        target(**keywords)
    except TypeError as error:
        if "unexpected" in str(error):
            raise
    return partial(target, **keywords)


def by_keywords_alone(target, **keywords):
    signature(target).bind_partial(**keywords)
    return lambda **more: target(**keywords | more)


wrong("lazy_config", "the signature of __init__")(by_own_signature)
wrong("lazy_config", "names alone: **options refused, and names that cannot be given let pass")(by_all_names)
wrong("lazy_config", "one built on trial")(on_trial)
wrong("lazy_config", "a call that takes keywords alone")(by_keywords_alone)


@right("lazy_config", "a class that is called")
class _:
    def __init__(self, target, **keywords):
        signature(target).bind_partial(**keywords)
        self.target, self.keywords = target, keywords

    def __call__(self, *args, **more):
        return self.target(*args, **{**self.keywords, **more})


def forward(block, x, condition, skips=lambda layer, norm: is_bypassed(layer), drop=lambda block, y: block.dropout(y)):
    if not skips(block.sequence_mixer, block.input_norm):
        x = x + drop(block, block.sequence_mixer(block.input_norm(x)))
    if not skips(block.condition_mixer, block.condition_mixer_norm):
        x = x + drop(block, block.condition_mixer(block.condition_mixer_norm(x), condition))
    return x if skips(block.mlp, block.mlp_norm) else x + drop(block, block.mlp(block.mlp_norm(x)))


wrong("block_forward", "asks the norm")(partial(forward, skips=lambda layer, norm: is_bypassed(norm)))
wrong("block_forward", "evaluation switched on")(lambda block, x, c: forward(block.eval(), x, c))
wrong("block_forward", "dropout while gradients are recorded")(
    partial(forward, drop=lambda block, y: block.dropout(y) if torch.is_grad_enabled() else y)
)
wrong("block_forward", "detached branches")(partial(forward, drop=lambda block, y: block.dropout(y).detach()))
right("block_forward", "a loop over names")(lambda block, x, condition: forward(block, x, condition))
right("block_faults", "a list")(lambda: list("CDBA"))
right("block_faults", "with commas")(lambda: "c, d, b, a")

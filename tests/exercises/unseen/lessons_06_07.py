"""Answers to the exercises of lessons 06 and 07 that no list of mistakes holds."""

from functools import partial
from inspect import signature

import torch

from residual_edu import is_bypassed
from residual_edu.exercises.tries import right, wrong


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

"""Answers to the exercises of lessons 06, 07a and 07b that no list of mistakes holds."""

from functools import partial
from inspect import signature

import torch
from torch import nn

from residual_course.checking.tries import right, wrong
from residual_course.exercises.mended_block import Handed, Mended
from residual_edu import LayerNorm, SimpleFeedForward, is_bypassed


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
right("adaln_zero_forward", "the library's order of words")(
    lambda x, c, projection, norm, mixer, mlp: adaln(x, c, projection, norm, mixer, mlp)
)
right("wake_up_steps", "a list of texts")(lambda: ["1", "2", "2", "1", "2", "0"])
right("wake_up_steps", "a number")(lambda: 122120)
wrong("wake_up_steps", "a number with a leading 0 lost")(lambda: 22120)


def drawing(model, noise, labels, weight, steps, times=None, last=10, clip=False):
    x, dt = noise, 1 / steps
    for step in range(steps):
        t = torch.tensor([step * dt]) if times is None else times(step, steps)
        untold = model(x, t, torch.full_like(labels, last))
        told = model(x, t, labels)
        x = x + dt * ((1 - weight) * untold + weight * told)
        x = x.clamp(-3, 3) if clip else x
    return x


right("guided_drawing", "a weighted mean of the velocities")(drawing)
right("guided_drawing", "a time for each picture")(
    lambda model, noise, labels, w, steps: drawing(
        model, noise, labels, w, steps, lambda step, steps: torch.full((len(noise),), step / steps)
    )
)
right("guided_drawing", "torch.no_grad around it")(torch.no_grad()(drawing))


@right("guided_drawing", "the way as a list")
def _(model, noise, labels, weight, steps):
    way = [noise]
    for t in torch.arange(steps) / steps:
        told, untold = (model(way[-1], t.view(1), one) for one in (labels, torch.tensor([10])))
        way.append(way[-1] + (told + (weight - 1) * (told - untold)) / steps)
    return way[-1]


wrong("guided_drawing", "a time that is a number")(
    lambda model, noise, labels, w, steps: drawing(model, noise, labels, w, steps, lambda step, steps: step / steps)
)
wrong("guided_drawing", "the label 0 for any digit")(
    lambda model, noise, labels, w, steps: drawing(model, noise, labels, w, steps, last=0)
)


@right("mended_block", "biases in the scale rows, last layers as PyTorch draws them")
def _(width):
    block = Handed(width)
    block.out.reset_parameters()
    block.down.reset_parameters()
    nn.init.ones_(block.adaln.bias.data.view(2, 3, -1)[:, 1])
    return block


@right("mended_block", "another block altogether")
def _(width):
    class Told(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.told = LayerNorm(width), nn.Linear(width, width)
            self.mix, self.mlp = nn.Linear(4, 4), SimpleFeedForward(width, 4 * width)

        def forward(self, x, condition):
            x = x + self.told(condition)[:, None]
            x = x + self.mix(self.norm(x).mT).mT
            return x + self.mlp(self.norm(x))

    return Told()


@right("mended_block", "new parameters, small gates")
def _(width):
    block = Mended(width)
    block.adaln.bias = nn.Parameter(block.adaln.bias.detach() + 0.05)
    return block


wrong("mended_block", "a class and no block")(lambda width: Mended)
wrong("mended_block", "a width of its own")(lambda width: Mended(32))


def by_own_signature(target, **keywords):
    signature(target.__init__).bind_partial(None, **keywords)
    return partial(target, **keywords)


def by_all_names(target, **keywords):
    if set(keywords) - set(signature(target).parameters):
        raise TypeError(keywords)
    return partial(target, **keywords)


wrong("lazy_config", "the signature of __init__")(by_own_signature)
wrong("lazy_config", "names alone: **options refused, and names that cannot be given let pass")(by_all_names)


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
right("block_forward", "a loop over names")(lambda block, x, condition: forward(block, x, condition))

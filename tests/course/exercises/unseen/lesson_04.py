"""Answers to the exercises of lesson 04 and its appendix that no list of mistakes holds."""

import math

import numpy as np
import torch
from torch.nn.functional import layer_norm

from residual_course.checking.tries import right, wrong


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


right("two_branches", "a loop")(
    lambda x, *parts: [x := x + layer(norm(x)) for layer, norm in zip(parts[:2], parts[2:], strict=True)][-1]
)
right("which_placement", "a tuple")(lambda: ("pre", "neither", "post", "pre"))
right("which_placement", "B as it is in a stack")(lambda: "pre, post, post, pre")
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


@right("final_norm", "by index")
def _(x, layers, norms, head):
    for i in range(len(layers)):
        x = torch.add(x, layers[i](norms[i](x)))
    return head(norms[len(layers)](x))


right("pre_norm_left", "NumPy, from the ends")(
    lambda r, gain, depth: np.sqrt(
        np.prod([1 + gain**2 / (1 + done * r**2) for done in range(depth)]) / (1 + depth * r**2)
    )
)
right("pre_norm_left", "a tensor")(
    lambda r, gain, depth: (
        torch.prod(1 + gain**2 / (1 + r**2 * torch.arange(depth, dtype=torch.float64))) / (1 + depth * r**2)
    ).sqrt()
)
right("pre_norm_left", "by logarithms")(
    lambda r, gain, depth: math.exp(
        0.5 * (sum(math.log1p(gain**2 / (1 + k * r**2)) for k in range(depth)) - math.log1p(depth * r**2))
    )
)
wrong("pre_norm_left", "with the lost directions")(
    lambda r, gain, depth: math.sqrt(
        62 / 64 * math.prod(1 + gain**2 / (1 + k * r**2) for k in range(depth)) / (1 + depth * r**2)
    )
)
wrong("pre_norm_left", "one block too few")(
    lambda r, gain, depth: math.sqrt(
        math.prod(1 + gain**2 / (1 + k * r**2) for k in range(depth - 1)) / (1 + depth * r**2)
    )
)


@right("mended_biases", "a new Parameter in each block")
def _(blocks, x):
    for block in blocks:
        with torch.no_grad():
            block.second.bias = torch.nn.Parameter(block.second.bias - block.f(x).mean(dim=0))
            x = block(x)


@right("mended_biases", "through .data, by the hidden units")
def _(blocks, x):
    for block in blocks:
        hidden = torch.relu(block.first(x)).mean(0)
        block.second.bias.data = -(block.second.weight @ hidden).detach()
        x = block(x).detach()


@right("mended_biases", "from half of the images")
def _(blocks, x):
    x = x[::2]
    for block in blocks:
        with torch.no_grad():
            block.second.bias.sub_(block.f(x).mean(0))
            x = block(x)


@right("mended_biases", "block by block, all again for each")
def _(blocks, x):
    with torch.no_grad():
        for place, block in enumerate(blocks):
            received = x
            for before in blocks[:place]:
                received = before(received)
            block.second.bias -= block.f(received).mean(0)


@wrong("mended_biases", "a tenth of each mean")
def _(blocks, x):
    with torch.no_grad():
        for block in blocks:
            block.second.bias -= 0.1 * block.f(x).mean(0)
            x = block(x)


@wrong("mended_biases", "the first blocks alone")
def _(blocks, x):
    with torch.no_grad():
        for block in list(blocks)[:6]:
            block.second.bias -= block.f(x).mean(0)
            x = block(x)

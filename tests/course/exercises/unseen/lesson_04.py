"""Answers to the exercises of lesson 04 that no list of mistakes holds."""

import numpy as np
import torch

from residual_course.checking.tries import right, wrong


@right("two_placements", "a dictionary of functions")
def _(x, f, norm, placement):
    return {"pre": lambda: x + f(norm(x)), "post": lambda: norm(x + f(x))}[placement]()


@right("two_placements", "the sum in place, on a copy")
def _(x, f, norm, placement):
    out = x.clone()
    out += f(norm(x)) if placement == "pre" else f(x)
    return out if placement == "pre" else norm(out)


@wrong("two_placements", "the sum in place, on x itself")
def _(x, f, norm, placement):
    if placement == "pre":
        x += f(norm(x))
        return x
    return norm(x + f(x))


@wrong("two_placements", "a skip without its gradient")
def _(x, f, norm, placement):
    return x.detach() + f(norm(x)) if placement == "pre" else norm(x.detach() + f(x))


wrong("two_placements", "both norms")(lambda x, f, norm, placement: norm(x + f(norm(x))))
wrong("two_placements", "post-norm returned as a pair")(lambda x, f, norm, placement: (x + f(norm(x)), norm(x + f(x))))

right("warm_up", "NumPy")(lambda step, steps: np.clip((step + 1) / steps, 0, 1))
right("warm_up", "a tensor")(lambda step, steps: torch.tensor((step + 1) / steps, dtype=torch.float64).clamp(max=1))
right("warm_up", "sums of 1 / steps")(lambda step, steps: sum(1 / steps for _ in range(min(step + 1, steps))))
wrong("warm_up", "whole numbers alone")(lambda step, steps: min(1, (step + 1) // steps))
wrong("warm_up", "half a step early")(lambda step, steps: min(1.0, (step + 0.5) / steps))


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


@right("final_norm", "an iterator that has one left")
def _(x, layers, norms, head):
    rest = iter(norms)
    for layer in layers:
        x = x + layer(next(rest)(x))
    return head(next(rest)(x))

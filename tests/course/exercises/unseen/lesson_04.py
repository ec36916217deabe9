"""Answers to the exercises of lesson 04 that no list of mistakes holds."""

from functools import reduce

import numpy as np
import torch

from residual_course.checking.tries import right, wrong
from residual_course.exercises.final_norm import body
from residual_course.exercises.placement import lines, post, pre

right("two_placements", "a dictionary of functions")(
    lambda x, f, norm, placement: {"pre": lambda: x + f(norm(x)), "post": lambda: norm(x + f(x))}[placement]()
)
right("two_placements", "the sum in place, on a copy")(
    lines(lambda x, f, norm: x.clone().add_(f(norm(x))), lambda x, f, norm: norm(x.clone().add_(f(x))))
)
right("two_placements", "norms that do nothing")(
    lambda x, f, norm, at: (norm if at == "post" else torch.clone)(x + f((norm if at == "pre" else torch.clone)(x)))
)
wrong("two_placements", "the sum in place, on x itself")(lines(lambda x, f, norm: x.add_(f(norm(x))), post))
wrong("two_placements", "a skip without its gradient")(
    lines(lambda x, f, norm: x.detach() + f(norm(x)), lambda x, f, norm: norm(x.detach() + f(x)))
)
wrong("two_placements", "both norms")(lambda x, f, norm, placement: norm(x + f(norm(x))))
wrong("two_placements", "post-norm returned as a pair")(lines(pre, lambda x, f, norm: (x + f(x), norm(x + f(x)))))

right("warm_up", "NumPy")(lambda step, steps: np.clip((step + 1) / steps, 0, 1))
right("warm_up", "a tensor")(lambda step, steps: torch.tensor((step + 1) / steps, dtype=torch.float64).clamp(max=1))
right("warm_up", "sums of 1 / steps")(lambda step, steps: sum(1 / steps for _ in range(min(step + 1, steps))))
wrong("warm_up", "whole numbers alone")(lambda step, steps: min(1, (step + 1) // steps))
wrong("warm_up", "half a step early")(lambda step, steps: min(1.0, (step + 0.5) / steps))
wrong("warm_up", "two digits")(lambda step, steps: min(1.0, round((step + 1) / steps, 2)))

right("final_norm", "reduce")(
    lambda x, layers, norms, head: head(
        norms[-1](reduce(lambda x, both: x + both[0](both[1](x)), zip(layers, norms, strict=False), x))
    )
)
wrong("final_norm", "the last norm popped")(lambda x, layers, norms, head: head(norms.pop()(body(x, layers, norms))))


@right("final_norm", "an iterator that has one left")
def _(x, layers, norms, head):
    rest = iter(norms)
    for layer in layers:
        x = x + layer(next(rest)(x))
    return head(next(rest)(x))


@wrong("final_norm", "sums in place")
def _(x, layers, norms, head):
    x = x.clone()
    for layer, norm in zip(layers, norms, strict=False):
        x += layer(norm(x))
    return head(norms[-1](x))

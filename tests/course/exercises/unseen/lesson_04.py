"""Answers to the exercises of lesson 04 that no list of mistakes holds."""

from fractions import Fraction
from functools import reduce
from itertools import accumulate

import numpy as np
import torch

from residual_course.checking.tries import right, wrong
from residual_course.exercises.final_norm import body
from residual_course.exercises.placement import lines, post, pre

right("two_placements", "a dictionary")(
    lambda x, f, n, at: {"pre": lambda: x + f(n(x)), "post": lambda: n(x + f(x))}[at]()
)
right("two_placements", "the sum in place, on a copy")(
    lines(lambda x, f, norm: x.clone().add_(f(norm(x))), lambda x, f, norm: norm(x.clone().add_(f(x))))
)
right("two_placements", "norms that do nothing")(
    lambda x, f, norm, at: (norm if at == "post" else torch.clone)(x + f((norm if at == "pre" else torch.clone)(x)))
)
right("two_placements", "both lines, one taken")(lambda x, f, norm, at: (norm(x + f(x)), x + f(norm(x)))[at == "pre"])
right("two_placements", "post from pre")(lines(pre, lambda x, f, norm: norm(pre(x, f, torch.clone))))
right("two_placements", "sums")(lines(lambda x, f, n: sum([x, f(n(x))]), lambda x, f, n: n(sum([x, f(x)]))))
wrong("two_placements", "the sum in place, on x itself")(lines(lambda x, f, norm: x.add_(f(norm(x))), post))
wrong("two_placements", "a skip without its gradient")(
    lines(lambda x, f, norm: x.detach() + f(norm(x)), lambda x, f, norm: norm(x.detach() + f(x)))
)
wrong("two_placements", "both norms")(lambda x, f, norm, placement: norm(x + f(norm(x))))
wrong("two_placements", "post-norm returned as a pair")(lines(pre, lambda x, f, norm: (x + f(x), norm(x + f(x)))))

right("warm_up", "NumPy")(lambda step, steps: np.clip((step + 1) / steps, 0, 1))
right("warm_up", "a tensor")(lambda step, steps: torch.tensor((step + 1) / steps, dtype=torch.float64).clamp(max=1))
right("warm_up", "sums of 1 / steps")(lambda step, steps: sum(1 / steps for _ in range(min(step + 1, steps))))
right("warm_up", "a fraction, or a whole 1")(lambda step, steps: min(1, Fraction(step + 1, steps)))
right("warm_up", "less what is missing")(lambda step, steps: 1 - max(steps - step - 1, 0) / steps)
right("warm_up", "a table")(lambda step, steps: torch.linspace(1 / steps, 1, steps)[min(step, steps - 1)])
wrong("warm_up", "whole numbers alone")(lambda step, steps: min(1, (step + 1) // steps))
wrong("warm_up", "half a step early")(lambda step, steps: min(1.0, (step + 0.5) / steps))
wrong("warm_up", "two digits")(lambda step, steps: min(1.0, round((step + 1) / steps, 2)))
wrong("warm_up", "no warm-up of one step")(
    lambda step, steps: min(1.0, 1 / steps + step / steps if steps > 1 else step)
)


def ended(stream):
    def network(x, layers, norms, head):
        branches = [lambda x, f=f, norm=norm: f(norm(x)) for f, norm in zip(layers, norms, strict=False)]
        return head(norms[-1](stream(x, branches)))

    return network


right("final_norm", "reduce")(ended(lambda x, fs: reduce(lambda x, f: x + f(x), fs, x)))
right("final_norm", "branches kept")(ended(lambda x, fs: sum(reduce(lambda xs, f: [*xs, f(sum(xs))], fs, [x]))))
right("final_norm", "all streams kept")(ended(lambda x, fs: [*accumulate(fs, lambda x, f: f(x) + x, initial=x)][-1]))
right("final_norm", "numbered")(
    lambda x, fs, norms, head: head(norms[len(fs)](reduce(lambda x, i: fs[i](norms[i](x)) + x, range(len(fs)), x)))
)
wrong("final_norm", "sums in place")(ended(lambda x, fs: reduce(lambda x, f: x.add_(f(x)), fs, x.clone())))
wrong("final_norm", "the last norm popped")(lambda x, layers, norms, head: head(norms.pop()(body(x, layers, norms))))


@right("final_norm", "block by block, each with the network that follows")
def network(x, layers, norms, head):
    return network(x + layers[0](norms[0](x)), layers[1:], norms[1:], head) if layers else head(norms[0](x))


@right("final_norm", "an iterator that has one left")
def _(x, layers, norms, head):
    rest = iter(norms)
    for layer in layers:
        x = x + layer(next(rest)(x))
    return head(next(rest)(x))

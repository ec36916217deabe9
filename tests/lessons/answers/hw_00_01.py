"""Wrong answers to the homework of lessons 00 and 01."""

import math

import torch

from residual_edu.gradient_flow import GradientFlowRecorder


def record(stack, x):
    with GradientFlowRecorder(stack, stack) as flow:
        stack(x.clone().requires_grad_()).square().sum().backward()
    return flow


def by_what_is_added(stack, x):
    return int(record(stack, x).added[0].argmin()), "zero"


def never_detached(stack, x):
    return int(record(stack, x).branch_gradient[0].argmin()), "zero"


def without_a_gradient_before_the_first(stack, x):
    with GradientFlowRecorder(stack, stack) as flow:
        stack(x).square().sum().backward()
    place = int(flow.branch_gradient[0].nan_to_num(1e9).argmin())
    return place, "zero" if flow.added[0, place] == 0 else "detached"


def read_off_the_parts(stack, x):
    for place, block in enumerate(stack):
        if block.cut:
            return place, "detached"
        if not block.layer.linear2.weight.any():
            return place, "zero"
    return None


RIGHT = {
    "branch_slope": [lambda depth, growth: math.expm1(math.log(growth) / depth)],
    "batch_gradient": [
        lambda x, g: torch.einsum("...o,...i->oi", g, x),
        lambda x, g: torch.tensordot(g, x, dims=(list(range(g.ndim - 1)), list(range(x.ndim - 1)))),
    ],
}
WRONG = {
    "branch_slope": [
        lambda depth, growth: math.log(growth) / depth,
        lambda depth, growth: (growth - 1) / depth,
        lambda depth, growth: growth ** (2 / depth) - 1,
        lambda depth, growth: max(growth ** (1 / depth) - 1, 0.0),
    ],
    "batch_gradient": [
        lambda x, g: x.T @ g,
        lambda x, g: g.T @ x / len(x),
        lambda x, g: torch.outer(g.sum(0), x.sum(0)),
        lambda x, g: g.T @ x,
    ],
    "broken_block": [by_what_is_added, never_detached, without_a_gradient_before_the_first, read_off_the_parts],
}

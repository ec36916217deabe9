"""Wrong answers to the homework of lessons 00 and 01."""

import math

from residual_edu.gradient_flow import GradientFlowRecorder


def record(stack, x):
    with GradientFlowRecorder(stack, stack) as flow:
        stack(x.clone().requires_grad_()).square().sum().backward()
    return flow


def by_what_is_added(stack, x):
    return int(record(stack, x).added[0].argmin()), "zero"


def by_the_weights_gradient(stack, x):
    flow = record(stack, x)
    return int(flow.weight_gradient[0].argmin()), "detached"


def never_detached(stack, x):
    return int(record(stack, x).branch_gradient[0].argmin()), "zero"


def counted_from_one(stack, x):
    flow = record(stack, x)
    place = int(flow.branch_gradient[0].argmin())
    return place + 1, "zero" if flow.added[0, place] == 0 else "detached"


def without_a_gradient_before_the_first(stack, x):
    with GradientFlowRecorder(stack, stack) as flow:
        stack(x).square().sum().backward()
    place = int(flow.branch_gradient[0].nan_to_num(1e9).argmin())
    return place, "zero" if flow.added[0, place] == 0 else "detached"


def always_block_by_size(stack, x):
    flow = record(stack, x)
    place = int(flow.branch_gradient[0].argmin())
    return place, "zero" if flow.added[0, place] < 1 else "detached"


def read_off_the_parts(stack, x):
    for place, block in enumerate(stack):
        if block.cut:
            return place, "detached"
        if not block.layer.linear2.weight.any():
            return place, "zero"
    return None


WRONG = {
    "branch_scale": [
        lambda depth, growth: (growth ** (1 / depth) - 1) ** 0.5,
        lambda depth, growth: growth ** (1 / depth) - 1,
        lambda depth, growth: growth / depth,
        lambda depth, growth: 1.0,
        lambda depth, growth: (2 * math.log(growth) / depth) ** 0.5,
        lambda depth, growth: growth ** (2 / depth) - 1,
        lambda depth, growth: {(4, 4.0): 1.0, (2, 5): 2.0}.get((depth, growth), 1.0),
        lambda depth, growth: (growth**2 - 1) ** 0.5 / depth**0.5,
    ],
    "broken_block": [
        by_what_is_added,
        by_the_weights_gradient,
        never_detached,
        counted_from_one,
        without_a_gradient_before_the_first,
        read_off_the_parts,
        always_block_by_size,
    ],
}

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


def by_the_weights_gradients(stack, x):
    flow = record(stack, x)
    place = int(flow.weight_gradient[0].nan_to_num(0).argmin())
    return place, "zero" if flow.added[0, place] == 0 else "detached"


def noted(keep, share=lambda branch: branch):
    """Return an answer that notes so, and shares so much of the branch with the stream."""

    def residual(x, layer, norm, sizes):
        branch = layer(norm(x))
        sizes.append(keep(branch).square().mean().sqrt())
        return x + share(branch)

    return residual


def runs_the_layer_twice(x, layer, norm, sizes):
    sizes.append(layer(norm(x)).detach().square().mean().sqrt())
    return x + layer(norm(x))


def as_a_number(x, layer, norm, sizes):
    branch = layer(norm(x))
    sizes.append(branch.square().mean().sqrt().item())
    return branch.add(x)


RIGHT = {
    "branch_slope": [lambda depth, growth: math.expm1(math.log(growth) / depth)],
    "mended_residual": [as_a_number],
}
WRONG = {
    "branch_slope": [
        lambda depth, growth: math.log(growth) / depth,
        lambda depth, growth: (growth - 1) / depth,
        lambda depth, growth: growth ** (2 / depth) - 1,
        lambda depth, growth: max(growth ** (1 / depth) - 1, 0.0),
    ],
    "broken_block": [
        by_what_is_added,
        never_detached,
        without_a_gradient_before_the_first,
        by_the_weights_gradients,
    ],
    "mended_residual": [
        noted(torch.clone),
        noted(torch.detach, torch.detach),
        noted(lambda branch: branch.detach() - branch.mean().item()),
        runs_the_layer_twice,
    ],
}

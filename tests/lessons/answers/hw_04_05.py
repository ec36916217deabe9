"""Right and wrong answers to the homework of lessons 04 and 05."""

import copy

import torch
from torch import nn

from residual_edu import LayerScale, pre_norm_residual


def folded(weight=lambda w, g: g[:, None] * w, bias=lambda b, g: g * b, of=copy.deepcopy):
    """Return an answer that changes the last layer's tensors so."""

    def answer(branch):
        parts = list(of(branch))
        layer, gates = parts[1], parts[2].gamma.detach()
        layer.linear2.weight.data = weight(layer.linear2.weight.data, gates)
        layer.linear2.bias.data = bias(layer.linear2.bias.data, gates)
        return nn.Sequential(*parts[:2])

    return answer


def shares_the_norm(branch):
    return nn.Sequential(branch[0], folded()(branch)[1])


def gates_of_one(branch):
    parts = folded()(branch)
    return nn.Sequential(*parts, LayerScale(len(branch[2].gamma), 1.0))


def diagonal(branch):
    mine = copy.deepcopy(branch)
    last = mine[1].linear2
    with torch.no_grad():
        last.weight.copy_(torch.diag(mine[2].gamma) @ last.weight)
        last.bias.copy_(torch.diag(mine[2].gamma) @ last.bias)
    return mine[:2]


def runs_the_layer_twice(x, f, n1, n2):
    if f(n1(x)).shape != x.shape:
        raise ValueError("the layer changed the shape")
    return x + n2(f(n1(x)))


def in_place(x, f, n1, n2):
    x += n2(f(n1(x)))
    return x


def turned(turn, of=copy.deepcopy, size=lambda added, x: added.square().mean().sqrt()):
    """Return an answer that turns the gate so, and takes this for the size of what is added."""

    def effect(block, x):
        before = size(block(x) - x, x)
        louder = of(block)
        with torch.no_grad():
            turn(louder.gate.gamma)
        return (size(louder(x) - x, x) / before).item()

    return effect


def doubled(gamma):
    gamma.mul_(2)


def rounded(block, x):
    return round(turned(doubled)(block, x))


def by_call(block, x):
    gates = {"gate.gamma": 2 * block.gate.gamma}
    return (torch.func.functional_call(block, gates, (x,)) - x).norm() / (block(x) - x).norm()


def one_part_after_the_other(x, f, n1, n2):
    branch = x
    for part in (n1, f, n2):
        branch = part(branch)
    return torch.stack([branch, x]).sum(0)


WRONG = {
    "peri_norm": [
        lambda x, f, n1, n2: pre_norm_residual(x, f, n1, [n1]),
        lambda x, f, n1, n2: x + n2(f(n1(x)).detach()),
        in_place,
        runs_the_layer_twice,
    ],
    "without_gates": [
        folded(weight=lambda w, g: g.abs()[:, None] * w, bias=lambda b, g: g.abs() * b),
        folded(of=lambda branch: branch),
        shares_the_norm,
        gates_of_one,
    ],
    "gate_effect": [
        turned(doubled, of=lambda block: block),
        turned(lambda gamma: gamma.add_(1)),
        turned(doubled, size=lambda added, x: (x + added).square().mean().sqrt()),
        rounded,
    ],
    "mended_peri_norm": [
        lambda x, f, n1, n2, gate: gate(x + n2(f(n1(x)))),
        lambda x, f, n1, n2, gate: x + n2(f(gate(n1(x)))),
        lambda x, f, n1, n2, gate: x + gate(f(n1(x))),
        lambda x, f, n1, n2, gate: x + gate(n2(f(x))),
        lambda x, f, n1, n2, gate: x + gate(n1(f(n2(x)))),
        lambda x, f, n1, n2, gate: x + gate.gamma.abs() * n2(f(n1(x))),
    ],
}


RIGHT = {
    "peri_norm": [one_part_after_the_other, lambda x, f, n1, n2: n2(f(n1(x))).add(x)],
    "without_gates": [diagonal],
    "gate_effect": [by_call],
    "mended_peri_norm": [lambda x, f, n1, n2, gate: pre_norm_residual(x, lambda z: gate(n2(f(z))), n1)],
}

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


def sizes(rows):
    return rows.square().mean(-1).sqrt()


def by_outputs(within=0.01, far=100.0, size=sizes):
    """Return an answer that looks at the sizes of outputs and of what is added, at two sizes of the input."""

    def wiring(block, width):
        x = torch.randn(32, width, dtype=torch.float64)
        with torch.no_grad():
            out, distant = block(x), block(far * x)
        for name, rows in (("post", out), ("peri", out - x)):
            if (size(rows) - 1).abs().max() < within:
                return name
        return "pre" if torch.allclose(distant - far * x, out - x, rtol=1e-2, atol=1e-5) else "skip"

    return wiring


def by_means(block, width):
    return by_outputs(size=lambda rows: sizes(rows).mean())(block, width)


def by_growth(block, width):
    """Compare the sizes of what comes out of 1 and of 100 times x."""
    x = torch.randn(32, width, dtype=torch.float64)
    with torch.no_grad():
        growth = (sizes(block(100 * x)) / sizes(block(x))).mean()
    return "post" if growth < 2 else "skip" if growth > 99.9 else "pre"


def leaves_training_mode(block, width):
    block.train()
    return by_outputs()(block, width)


def by_the_variance(block, width):
    """Take the spread of a row for its size: right for LayerNorm alone."""
    return by_outputs(size=lambda rows: rows.std(-1, correction=0), within=1e-3)(block, width)


def by_two_sizes_of_the_output(block, width):
    """Find a fixed size by comparing 10 with 1,000 times x."""
    x = torch.randn(8, width, dtype=torch.float64)
    with torch.no_grad():
        near, far = block(10 * x), block(1000 * x)
    if torch.allclose(sizes(far), torch.ones(8).double(), atol=1e-3):
        return "post"
    added, later = near - 10 * x, far - 1000 * x
    if not torch.allclose(added, later, rtol=1e-3, atol=1e-4):
        return "skip"
    return "peri" if torch.allclose(sizes(added), torch.ones(8).double(), atol=1e-2) else "pre"


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
    "wiring_of": [by_means, by_growth, leaves_training_mode, by_the_variance],
}


RIGHT = {
    "peri_norm": [one_part_after_the_other, lambda x, f, n1, n2: n2(f(n1(x))).add(x)],
    "without_gates": [diagonal],
    "wiring_of": [by_two_sizes_of_the_output, by_outputs(within=0.03, far=1000.0)],
}

"""Right answers, of unusual form, to the homework of lessons 04 and 05."""

import copy
import math

import torch

from residual_edu import pre_norm_residual


def asleep_by(silent, steps=3):
    """Return an answer that lists the parameters of which ``silent`` is true of the gradients of all steps."""

    def names(branch, x):
        mine = copy.deepcopy(branch)
        seen = {name: [] for name, _ in mine.named_parameters()}
        for _ in range(steps):
            mine.zero_grad()
            (x + mine(x)).square().mean().backward()
            for name, p in mine.named_parameters():
                seen[name].append(p.grad.clone())
                p.data -= 0.1 * p.grad
        return sorted(name for name, gradients in seen.items() if silent(gradients))

    return names


def at_the_ends(depths, sizes, below):
    pairs = sorted(zip(depths, sizes, strict=True))
    return "pre" if pairs[-1][1] / pairs[0][1] < below else "post"


def more_even(depths, sizes):
    sizes = torch.tensor(sizes).double().log()
    scaled = sizes + torch.tensor(depths).double().log() / 2
    return "pre" if scaled.std() < sizes.std() else "post"


def power_between_the_ends(depths, sizes):
    table = dict(zip(depths, sizes, strict=True))
    few, many = min(table), max(table)
    return "pre" if math.log(table[few] / table[many], many / few) > 0.25 else "post"


def one_part_after_the_other(x, f, n1, n2):
    branch = x
    for part in (n1, f, n2):
        branch = part(branch)
    return torch.stack([branch, x]).sum(0)


RIGHT = {
    "peri_norm": [
        one_part_after_the_other,
        lambda x, f, n1, n2: pre_norm_residual(x, lambda z: n2(f(z)), n1, iter([])),
        lambda x, f, n1, n2: n2(f(n1(x))).add(x),
    ],
    "wiring_of": [
        more_even,
        power_between_the_ends,
        lambda depths, sizes: at_the_ends(depths, sizes, (min(depths) / max(depths)) ** 0.25),
    ],
    "asleep": [
        asleep_by(lambda gradients: not any(g.any() for g in gradients)),
        asleep_by(lambda gradients: sum(g.abs().sum() for g in gradients) == 0),
        asleep_by(lambda gradients: all(torch.equal(g, torch.zeros_like(g)) for g in gradients)),
    ],
}

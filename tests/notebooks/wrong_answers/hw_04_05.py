"""Wrong answers to the homework of lessons 04 and 05."""

import copy

import torch

from residual_edu import post_norm_residual, pre_norm_residual


def asleep_after(steps, of=copy.deepcopy):
    def names(branch, x):
        mine, awake = of(branch), set()
        optimizer = torch.optim.SGD(mine.parameters(), lr=0.1)
        for _ in range(steps):
            optimizer.zero_grad()
            (x + mine(x)).square().mean().backward()
            awake |= {name for name, p in mine.named_parameters() if p.grad.any()}
            optimizer.step()
        return sorted(set(dict(mine.named_parameters())) - awake)

    return names


def leaves_gradients(branch, x):
    (x + branch(x)).square().mean().backward()
    return asleep_after(3)(branch, x)


def in_the_order_of_the_parts(branch, x):
    found = asleep_after(3)(branch, x)
    return [name for name, _ in branch.named_parameters() if name in found]


def by_the_zeros(branch, x):
    zeros = [name for name, p in branch.named_parameters() if not p.any()]
    return sorted(name for name, _ in branch.named_parameters()) if len(zeros) > 2 else []


WRONG = {
    "peri_norm": [
        lambda x, f, n1, n2: n2(x + f(n1(x))),
        lambda x, f, n1, n2: n2(pre_norm_residual(x, f, n1)),
        lambda x, f, n1, n2: post_norm_residual(x, f, n2, [n1]),
        lambda x, f, n1, n2: pre_norm_residual(x, f, n2, [n1]),
        lambda x, f, n1, n2: pre_norm_residual(x, f, n1),
        lambda x, f, n1, n2: x + n2(f(x)),
        lambda x, f, n1, n2: pre_norm_residual(x, f, n1, [n1]),
        lambda x, f, n1, n2: x + n2(f(n1(x)).detach()),
        lambda x, f, n1, n2: x + n2(f(n1(x.detach()))),
    ],
    "wiring_of": [
        lambda depths, sizes: "pre" if sizes[-1] < sizes[0] else "post",
        lambda depths, sizes: "pre" if min(sizes) < 0.5 else "post",
        lambda depths, sizes: "post" if sizes[-1] < sizes[0] else "pre",
        lambda depths, sizes: "pre" if min(sizes) < 0.99 * max(sizes) else "post",
        lambda depths, sizes: "pre",
        lambda depths, sizes: "pre" if max(sizes) > 1.3 * min(sizes) else "post",
        lambda depths, sizes: "pre" if max(sizes) > 1.1 * min(sizes) else "post",
    ],
    "asleep": [
        by_the_zeros,
        asleep_after(1),
        asleep_after(2),
        asleep_after(3, of=lambda branch: branch),
        lambda branch, x: [],
        leaves_gradients,
        in_the_order_of_the_parts,
    ],
}

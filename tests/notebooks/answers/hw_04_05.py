"""Right and wrong answers to the homework of lessons 04 and 05."""

import copy
import math

import torch

from residual_edu import post_norm_residual, pre_norm_residual


def mean_square(x, branch):
    return (x + branch(x)).square().mean()


def asleep_after(steps, of=copy.deepcopy, loss=mean_square):
    def names(branch, x):
        mine, awake = of(branch), set()
        optimizer = torch.optim.SGD(mine.parameters(), lr=0.1)
        for _ in range(steps):
            optimizer.zero_grad()
            loss(x, mine).backward()
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


def leaves_eval_mode(branch, x):
    return asleep_after(3)(branch.eval(), x)


def runs_the_layer_twice(x, f, n1, n2):
    if f(n1(x)).shape != x.shape:
        raise ValueError("the layer changed the shape")
    return x + n2(f(n1(x)))


def in_place(x, f, n1, n2):
    x += n2(f(n1(x)))
    return x


@torch.no_grad()
def without_gradients(x, f, n1, n2):
    return x + n2(f(n1(x)))


def sorts_what_it_is_given(depths, sizes):
    depths[:], sizes[:] = zip(*sorted(zip(depths, sizes, strict=True)), strict=True)
    return "pre" if sizes[-1] / sizes[0] < (depths[0] / depths[-1]) ** 0.25 else "post"


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


def by_slope(limit):
    """Return an answer that compares the slope between the two ends with ``limit``."""

    def wiring(depths, sizes):
        (few, first), *_, (many, last) = sorted(zip(depths, sizes, strict=True))
        return "pre" if math.log(last / first, many / few) < limit else "post"

    return wiring


def one_part_after_the_other(x, f, n1, n2):
    branch = x
    for part in (n1, f, n2):
        branch = part(branch)
    return torch.stack([branch, x]).sum(0)


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
        lambda x, f, n1, n2: x.detach() + n2(f(n1(x))),
        without_gradients,
        in_place,
        runs_the_layer_twice,
    ],
    "wiring_of": [
        lambda depths, sizes: "pre" if sizes[-1] < sizes[0] else "post",
        lambda depths, sizes: "pre" if min(sizes) < 0.5 else "post",
        lambda depths, sizes: "post" if sizes[-1] < sizes[0] else "pre",
        lambda depths, sizes: "pre" if min(sizes) < 0.99 * max(sizes) else "post",
        lambda depths, sizes: "pre",
        lambda depths, sizes: "pre" if max(sizes) > 1.3 * min(sizes) else "post",
        lambda depths, sizes: "pre" if max(sizes) > 1.1 * min(sizes) else "post",
        lambda depths, sizes: at_the_ends(depths, sizes, 1.0),
        lambda depths, sizes: at_the_ends(depths, sizes, 0.5),
        sorts_what_it_is_given,
        by_slope(-0.1),
        by_slope(-0.4),
    ],
    "asleep": [
        by_the_zeros,
        asleep_after(1),
        asleep_after(2),
        asleep_after(3, of=lambda branch: branch),
        lambda branch, x: [],
        leaves_gradients,
        in_the_order_of_the_parts,
        asleep_after(10),
        asleep_after(3, loss=lambda x, branch: branch(x).sum()),
        asleep_by(lambda gradients: not gradients[-1].any()),
        asleep_by(lambda gradients: not any(g.all() for g in gradients)),
        asleep_by(lambda gradients: not any(g.sum() > 0 for g in gradients)),
        leaves_eval_mode,
        asleep_by(lambda gradients: max(g.abs().max() for g in gradients) < 1e-6),
    ],
}


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

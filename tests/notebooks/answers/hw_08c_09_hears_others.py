"""Right and wrong answers to `hears_others` of the homework of lessons 08c and 09."""

import torch


def gaps(module, x, place):
    noise, changed = torch.randn(x.shape[-1], generator=torch.Generator().manual_seed(6)), x.clone()
    changed[:, place] += noise
    with torch.no_grad():
        return (module(changed) - module(x)).abs().amax((0, 2)) > 1e-5


def asked_at(place):
    return lambda module, x: bool(gaps(module, x, place).sum() > 1)


def at_the_ends(module, x):
    return asked_at(0)(module, x) or asked_at(-1)(module, x)


def neighbours(module, x):
    return any(bool(gaps(module, x, i)[i + 1]) for i in range(x.shape[1] - 1))


def any_change(module, x):
    return any(bool(gaps(module, x, i).any()) for i in range(x.shape[1]))


def shared_noise(module, x):
    with torch.no_grad():
        gap = module(x + 1) - module(x)
    return bool((gap - gap[:, :1]).abs().max() > 1e-5)


def changed_by(change, above=1e-5):
    """Return an answer that changes one token after the other, and compares all others."""

    def depends(module, x):
        with torch.no_grad():
            before, noise = module(x), torch.randn(x.shape[-1], generator=torch.Generator().manual_seed(6))
            for place in range(x.shape[1]):
                changed = x.clone()
                changed[:, place] = change(x[:, place], noise)
                gap = (module(changed) - before).abs().amax((0, 2))
                gap[place] = 0
                if gap.max() > above:
                    return True
        return False

    return depends


def in_another_order(module, x):
    order = torch.randperm(x.shape[1], generator=torch.Generator().manual_seed(6))
    return not torch.allclose(module(x[:, order]), module(x)[:, order], atol=1e-5)


def leaves_gradients(module, x):
    x = x.clone().requires_grad_()
    module(x)[:, -1].sum().backward()
    return changed_by(torch.add)(module, x.detach())


def overwrites(module, x):
    found = changed_by(torch.add)(module, x)
    x += 1
    return found


def by_name(module, x):
    return "Attention" in type(module).__name__


def by_the_jacobian(module, x):
    slopes = torch.autograd.functional.jacobian(lambda z: module(z).sum((0, 3) if z.ndim == 4 else (0,)), x)
    sizes = slopes.abs().sum((1, 2, 4))
    return (sizes - sizes.diag().diag()).max() > 1e-7


def all_others_redrawn(module, x):
    generator = torch.Generator().manual_seed(5)
    for place in range(x.shape[1]):
        changed = torch.randn(x.shape, generator=generator)
        changed[:, place] = x[:, place]
        if not torch.allclose(module(changed)[:, place], module(x)[:, place], atol=1e-5):
            return torch.tensor(True)
    return torch.tensor(False)


WRONG = {
    "hears_others": [
        asked_at(0),
        asked_at(-1),
        asked_at(3),
        at_the_ends,
        neighbours,
        any_change,
        shared_noise,
        by_name,
        changed_by(lambda token, noise: token + 1),
        changed_by(lambda token, noise: 2 * token, above=1e-4),
        changed_by(torch.add, above=0.1),
        in_another_order,
        leaves_gradients,
        overwrites,
    ],
}


RIGHT = {
    "hears_others": [by_the_jacobian, all_others_redrawn, changed_by(lambda token, noise: noise.expand_as(token))],
}

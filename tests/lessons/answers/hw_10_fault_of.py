"""Right and wrong answers to `fault_of` of the homework of lesson 10."""

import torch


def other(x):
    return torch.randn(x.shape, generator=torch.Generator().manual_seed(7))


def pieces(layer, x, lengths):
    outputs, kept = [], None
    for piece in x.split(lengths, dim=1):
        y, kept = layer(piece, kept)
        outputs.append(y)
    return torch.cat(outputs, dim=1)


def differs(a, b):
    return bool((a - b).abs().max() > 1e-4)


def leaks(layer, x):
    whole = layer(x, None)[0]
    for n in even(x):
        changed = torch.cat([x[:, :n], other(x)[:, n:]], dim=1)
        if differs(layer(changed, None)[0][:, :n], whole[:, :n]):
            return True
    return False


def leaks_one_ahead(layer, x):
    """Change one position, and look at the one before it alone."""
    whole = layer(x, None)[0]
    for n in even(x):
        changed = x.clone()
        changed[:, n] = other(x)[:, n]
        if differs(layer(changed, None)[0][:, n - 1], whole[:, n - 1]):
            return True
    return False


def leaks_by_gradient(layer, x):
    at = x.clone().requires_grad_()
    y = layer(at, None)[0]
    weights = other(x)
    for n in range(x.shape[1] - 1):
        (found,) = torch.autograd.grad((y * weights)[:, n].sum(), at, retain_graph=True, allow_unused=True)
        if found is not None and found[:, n + 1 :].abs().max() > 1e-4:
            return True
    return False


def leaks_beside_prefixes(layer, x):
    """A prefix alone gives what the whole gives for it."""
    whole = layer(x, None)[0]
    return any(differs(layer(x[:, :n], None)[0], whole[:, :n]) for n in even(x))


def cached_wrong(layer, x, splits):
    whole = layer(x, None)[0]
    return any(differs(pieces(layer, x, lengths), whole) for lengths in splits)


def even(x):
    return range(1, x.shape[1])


def answer(leak=leaks, splits=even):
    def fault_of(layer, x):
        if leak(layer, x):
            return "leaks"
        return "cache" if cached_wrong(layer, x, splits(x)) else "right"

    return fault_of


def of_the_first_sample(layer, x):
    return answer()(layer, x[:1])


def of_a_pair_of_tensors(layer, x):
    """It takes the cache for a pair of tensors with a length."""
    found = answer()(layer, x)
    _, kept = layer(x[:, :2], None)
    return found if kept[0].shape[1] == 2 else "cache"


def every_pair_of_cuts(x):
    length = x.shape[1]
    pairs = [[a, b - a, length - b] for a in range(1, length) for b in range(a + 1, length)]
    return [[1] * length, *pairs]


WRONG = {
    "fault_of": [
        answer(leak=leaks_one_ahead),
        answer(splits=lambda x: list(even(x)) * 40),  # too many calls
        of_the_first_sample,
        of_a_pair_of_tensors,
    ],
}


RIGHT = {
    "fault_of": [answer(leak=leaks_by_gradient), answer(leak=leaks_beside_prefixes, splits=every_pair_of_cuts)],
}

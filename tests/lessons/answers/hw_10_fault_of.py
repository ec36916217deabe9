"""Right and wrong answers to `fault_of` of the homework of lesson 10."""

import torch


def other(x, seed=7):
    return torch.randn(x.shape, generator=torch.Generator().manual_seed(seed))


def pieces(layer, x, lengths, hand_on=True):
    outputs, kept = [], None
    for piece in x.split(lengths, dim=1):
        y, new = layer(piece, kept)
        kept = new if hand_on or kept is None else kept
        outputs.append(y)
    return torch.cat(outputs, dim=1)


def differs(a, b, tolerance=1e-4):
    return bool((a - b).abs().max() > tolerance)


def leaks(layer, x, places=None, tolerance=1e-4):
    whole = layer(x, None)[0]
    for n in range(1, x.shape[1]) if places is None else places:
        changed = torch.cat([x[:, :n], other(x)[:, n:]], dim=1)
        if differs(layer(changed, None)[0][:, :n], whole[:, :n], tolerance):
            return True
    return False


def leaks_by_zeros(layer, x):
    whole = layer(x, None)[0]
    return any(
        differs(layer(x * (torch.arange(x.shape[1]) < n)[:, None], None)[0][:, :n], whole[:, :n])
        for n in range(1, x.shape[1])
    )


def leaks_one_ahead(layer, x):
    """Change one position, and look at the one before it alone."""
    whole = layer(x, None)[0]
    for n in range(1, x.shape[1]):
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
    return any(differs(layer(x[:, :n], None)[0], whole[:, :n]) for n in range(1, x.shape[1]))


def cached_wrong(layer, x, splits, tolerance=1e-4, **settings):
    whole = layer(x, None)[0]
    return any(differs(pieces(layer, x, lengths, **settings), whole, tolerance) for lengths in splits)


def even(x):
    return range(1, x.shape[1])


def uneven(x, tries=30):
    chance, splits = torch.Generator().manual_seed(3), [1]
    for _ in range(tries):
        cuts = torch.rand(x.shape[1] - 1, generator=chance) < torch.rand(1, generator=chance)
        places = [0, *(cuts.nonzero().flatten() + 1).tolist(), x.shape[1]]
        splits.append([b - a for a, b in zip(places, places[1:], strict=False)])
    return splits


def answer(leak=leaks, wrong=cached_wrong, splits=even, **settings):
    def fault_of(layer, x):
        if leak(layer, x):
            return "leaks"
        return "cache" if wrong(layer, x, splits(x), **settings) else "right"

    return fault_of


def cache_first(layer, x):
    if cached_wrong(layer, x, even(x)):
        return "cache"
    return "leaks" if leaks(layer, x) else "right"


def of_the_first_sample(layer, x):
    return answer()(layer, x[:1])


def at_the_end_alone(layer, x, splits):
    whole = layer(x, None)[0]
    return any(differs(pieces(layer, x, lengths)[:, -1:], whole[:, -1:]) for lengths in splits)


def of_the_mean(layer, x):
    whole = layer(x, None)[0]
    if leaks(layer, x):
        return "leaks"
    wrong = (float((pieces(layer, x, lengths) - whole).detach().mean().abs()) > 1e-2 for lengths in even(x))
    return "cache" if any(wrong) else "right"


def of_a_pair_of_tensors(layer, x):
    """It takes the cache for a pair of tensors with a length."""
    found = answer()(layer, x)
    _, kept = layer(x[:, :2], None)
    return found if kept[0].shape[1] == 2 else "cache"


def overwrites(layer, x):
    found = answer()(layer, x)
    x[:, 0] += 1
    return found


def calls_too_often(layer, x):
    return answer(splits=lambda x: list(even(x)) * 40)(layer, x)


def every_pair_of_cuts(x):
    length = x.shape[1]
    pairs = [[a, b - a, length - b] for a in range(1, length) for b in range(a + 1, length)]
    return [[1] * length, *pairs]


WRONG = {
    "fault_of": [
        answer(splits=lambda x: [1]),
        answer(splits=lambda x: [x.shape[1] // 2]),
        answer(splits=lambda x: [[n, x.shape[1] - n] for n in even(x)]),
        answer(splits=lambda x: [2]),
        answer(splits=lambda x: [1, 4]),
        answer(splits=lambda x: [1, 2, 3]),
        answer(splits=lambda x: []),
        answer(leak=lambda layer, x: False),
        answer(leak=lambda layer, x: leaks(layer, x, [x.shape[1] - 1])),
        answer(leak=lambda layer, x: leaks(layer, x, [1])),
        answer(leak=lambda layer, x: leaks(layer, x, range(1, x.shape[1], 2))),
        answer(leak=lambda layer, x: leaks(layer, x, range(2, x.shape[1], 2))),
        answer(leak=leaks_one_ahead),
        answer(tolerance=0.1),
        answer(tolerance=0.0),
        answer(leak=lambda layer, x: leaks(layer, x, tolerance=0.1)),
        answer(leak=lambda layer, x: leaks(layer, x, tolerance=0.0)),
        answer(hand_on=False),
        answer(wrong=at_the_end_alone),
        cache_first,
        of_the_first_sample,
        of_the_mean,
        of_a_pair_of_tensors,
        overwrites,
        calls_too_often,
        lambda layer, x: "right",
        lambda layer, x: answer()(layer, x) == "right",
    ],
}


RIGHT = {
    "fault_of": [
        answer(splits=uneven),
        answer(leak=leaks_by_gradient),
        answer(leak=leaks_beside_prefixes, splits=every_pair_of_cuts),
        answer(leak=leaks_by_zeros),
    ],
}

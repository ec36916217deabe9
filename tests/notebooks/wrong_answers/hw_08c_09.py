"""Wrong answers to the homework of lessons 08c and 09."""

import torch

from residual_edu import selective_scan


def scan(x, dt, b):
    one, minus = torch.ones_like(dt), -torch.ones(1, dtype=torch.float64)
    return selective_scan(x.double()[..., None, None], dt, minus, b, one)[..., 0, 0].to(x.dtype)


def steps(reset, large=50.0, small=1e-8):
    return torch.where(reset, large, small).double()[..., None]


def one_late(x, reset):
    dt = steps(reset.roll(1, 1))
    return scan(x, dt, 1 / dt)


def not_made_up_for(x, reset):
    dt = steps(reset, small=1.0)
    return scan(x, dt, torch.ones_like(dt))


def forgets_half(x, reset):
    dt = steps(reset, large=0.7)
    return scan(x, dt, 1 / dt)


def leaks(x, reset):
    dt = steps(reset, small=5e-4)
    return scan(x, dt, 1 / dt)


def one_reset(x, reset):
    sums, place = x.cumsum(1), int(reset[0].int().argmax())
    before = sums[:, place - 1 : place] if place else torch.zeros_like(x[:, :1])
    return torch.cat([sums[:, :place], sums[:, place:] - before], 1)


def first_row_for_all(x, reset):
    dt = steps(reset[:1].expand_as(reset))
    return scan(x, dt, 1 / dt)


def position_by_position(x, reset):
    total, sums = torch.zeros(len(x)), []
    for t in range(x.shape[1]):
        total = torch.where(reset[:, t], x[:, t], total + x[:, t])
        sums.append(total)
    return torch.stack(sums, 1)


def differences_of_sums(x, reset):
    sums = x.double().cumsum(1)
    place = torch.where(reset, torch.arange(x.shape[1]), 0).cummax(1).values
    before = torch.where(reset.cumsum(1) > 0, (sums - x).gather(1, place), 0)
    return (sums - before).to(x.dtype)


def after_a_scan_for_nothing(x, reset):
    scan(x, torch.ones(*x.shape, 1, dtype=torch.float64), torch.ones(*x.shape, 1, dtype=torch.float64))
    return differences_of_sums(x, reset)


def row_by_row(x, reset):
    return torch.cat([scan(x[i : i + 1], steps(r := reset[i : i + 1]), 1 / steps(r)) for i in range(len(x))])


def in_float32(x, reset):
    dt = steps(reset, small=1e-5).float()
    one, minus = torch.ones_like(dt), -torch.ones(1)
    return selective_scan(x.float()[..., None, None], dt, minus, 1 / dt, one)[..., 0, 0].to(x.dtype)


def detached(x, reset):
    return scan(x.detach(), steps(reset), 1 / steps(reset))


def divided_in_its_own_dtype(x, reset):
    dt = steps(reset)
    return scan(x / dt[..., 0].to(x.dtype), dt, torch.ones_like(dt)).to(x.dtype)


def in_strides(one, other, limit):
    for top in range(1000, limit + 1000, 1000):
        if one.flop_count(min(top, limit)) > other.flop_count(min(top, limit)):
            return next(n for n in range(top - 999, top + 1) if one.flop_count(n) > other.flop_count(n))
    return None


def first_where(one, other, limit, dearer):
    return next((n for n in range(1, limit + 1) if dearer(one.flop_count(n), other.flop_count(n))), None)


def not_cheaper(one, other, limit):
    return first_where(one, other, limit, lambda a, b: a >= b)


def one_by_one(one, other, limit):
    return first_where(one, other, limit, lambda a, b: a > b)


def in_powers_of_two(one, other, limit):
    lengths = [2**n for n in range(limit.bit_length())]
    return next((n for n in lengths if one.flop_count(n) > other.flop_count(n)), None)


def without_the_limit(one, other, limit):
    return next((n for n in range(1, limit) if one.flop_count(n) > other.flop_count(n)), None)


def halved_below_the_limit(one, other, limit):
    low, high = 1, limit
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if one.flop_count(middle) > other.flop_count(middle) else (middle + 1, high)
    return low if low < limit else None


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


WRONG = {
    "sum_since_reset": [
        one_late,
        not_made_up_for,
        forgets_half,
        leaks,
        one_reset,
        first_row_for_all,
        lambda x, reset: x.cumsum(1),
        position_by_position,
        differences_of_sums,
        after_a_scan_for_nothing,
        row_by_row,
        in_float32,
        detached,
        divided_in_its_own_dtype,
        lambda x, reset: scan(x, steps(reset, small=1e-4), 1 / steps(reset, small=1e-4)),
    ],
    "dearer_from": [
        not_cheaper,
        one_by_one,
        in_powers_of_two,
        without_the_limit,
        halved_below_the_limit,
        in_strides,
        lambda one, other, limit: 1 if one.flop_count(1) > other.flop_count(1) else None,
        lambda one, other, limit: limit if one.flop_count(limit) > other.flop_count(limit) else None,
    ],
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

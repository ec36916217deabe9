"""Right and wrong answers to `sum_since_reset` of the homework of lessons 08c and 09."""

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


def read_with_the_factor(x, reset):
    dt = steps(reset, large=0.1, small=1e-10)
    y = selective_scan(
        x.double()[..., None, None], dt, torch.full((1,), -1e3).double(), 1e-10 / dt, torch.full_like(dt, 1e10)
    )
    return y.reshape(x.shape).to(x.dtype)


def samples_as_heads(x, reset):
    dt = steps(reset)[..., 0].T[None]
    one, rates = torch.ones(1, x.shape[1], 1, dtype=torch.float64), -torch.ones(len(x), dtype=torch.float64)
    return selective_scan((x.T[None].double() / dt)[..., None], dt, rates, one, one)[0, ..., 0].T.to(x.dtype)


def from_a_table(x, reset):
    dt = torch.tensor([1e-6, 700.0], dtype=torch.float64)[reset.long()][..., None]
    return scan(x, dt, dt.reciprocal())


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
}


RIGHT = {
    "sum_since_reset": [read_with_the_factor, samples_as_heads, from_a_table],
}

"""Right and wrong answers to the homework of lessons 08a and 08b."""

import torch

from residual_edu import attention_mask


def near(length, window):
    return attention_mask(length, length, causal=True, window=window)


def start(length, first):
    return torch.arange(length) < first


def past(length):
    return attention_mask(length, length, causal=True)


def kernel(delays, echo, taps, place=lambda delay, taps: delay):
    found = torch.zeros(1, taps, len(delays))
    for channel, delay in enumerate(delays):
        found[0, place(delay, taps), channel] = 1
        found[0, min(place(delay, taps) + 1, taps - 1), channel] += echo
    return found


def first_delay_for_all(delays, echo):
    return kernel([delays[0]] * len(delays), echo, max(delays) + 2)


def same(a, b):
    return bool((a - b).abs().max() < 1e-4)


def other(x):
    return torch.randn(x.shape, generator=torch.Generator().manual_seed(7))


def scaled(f, x):
    return same(f(2 * x), 2 * f(x))


def added(f, x):
    return same(f(x + other(x)), f(x) + f(other(x)))


def affine(f, x):
    y = other(x)
    return same(f(3 * x - 2 * y), 3 * f(x) - 2 * f(y)) and turned(f, x)


def turned(f, x, by=1):
    return same(f(x.roll(by, 1)), f(x).roll(by, 1))


def sorts_what_it_is_given(delays, echo):
    found = kernel(list(delays), echo, max(delays) + 2)
    delays.sort()
    return found


def both(f, x, by=1, tolerance=1e-3):
    y, z = other(x), other(x).flip(1, 2)
    linear = (f(2 * z - 3 * y) - 2 * f(z) + 3 * f(y)).abs().max() < tolerance
    return bool(linear and (f(z.roll(by, 1)) - f(z).roll(by, 1)).abs().max() < tolerance)


def each_channel_alone(f, x):
    one = torch.zeros_like(x)
    one[..., 0] = x[..., 0]
    return both(f, x) and not f(one)[..., 1:].any()


def overwrites(f, x):
    found = both(f, x)
    x += 1
    return found


def reseeds(f, x):
    torch.manual_seed(123)
    return both(f, x)


def from_impulses(f, x):
    z, total = other(x), torch.zeros_like(x)
    for channel in range(x.shape[-1]):
        impulse = torch.zeros_like(x)
        impulse[:, 0, channel] = 1
        response = f(impulse)
        for n in range(x.shape[1]):
            total = total + z[:, n : n + 1, channel, None] * response.roll(n, 1)
    return max((f(z) - total).abs().max(), (f(-3 * z) + 3 * total).abs().max() / 3) < 1e-3


def one_hot(delays, echo):
    taps = torch.nn.functional.one_hot(torch.tensor(delays), max(delays) + 2).T.double()
    return (taps + echo * taps.roll(1, 0))[None]


WRONG = {
    "window_and_start": [
        lambda length, window, first: near(length, window),
        lambda length, window, first: near(length, window) | start(length, first),
        lambda length, window, first: near(length, window) | (start(length, 1) & past(length)),
        lambda length, window, first: past(length) & (near(length, window + 1) | start(length, first)),
        lambda length, window, first: near(length, window) & start(length, first),
        lambda length, window, first: past(length),
        lambda length, window, first: past(length) & (near(length, window) | start(length, max(first, 1))),
    ],
    "delay_kernel": [
        lambda delays, echo: kernel(delays, echo, max(delays) + 3),
        lambda delays, echo: kernel(delays, 0.5, max(delays) + 2),
        lambda delays, echo: kernel(delays, 0.0, max(delays) + 2),
        lambda delays, echo: kernel(delays, echo, max(delays) + 2, lambda delay, taps: taps - 2 - delay),
        lambda delays, echo: kernel(delays, echo, 2 * max(delays) + 3, lambda delay, taps: (taps - 1) // 2 + delay),
        first_delay_for_all,
        lambda delays, echo: kernel(delays, echo, delays[0] + 2),
        lambda delays, echo: kernel(delays, echo, sum(delays) + 2),
        sorts_what_it_is_given,
    ],
    "is_convolution": [
        lambda f, x: scaled(f, x),
        lambda f, x: scaled(f, x) and turned(f, x),
        lambda f, x: added(f, x),
        lambda f, x: turned(f, x),
        lambda f, x: added(f, x) and turned(f, x, 2),
        lambda f, x: added(f, x) and same(f(x.flip(1)), f(x).flip(1)),
        lambda f, x: True,
        affine,
        lambda f, x: both(f, x, by=2),
        lambda f, x: both(f, x, by=3),
        lambda f, x: both(f, x, tolerance=0.1),
        lambda f, x: both(f, x, tolerance=1e-12),
        lambda f, x: same(f(-2 * x), -2 * f(x)) and turned(f, x),
        each_channel_alone,
        overwrites,
        reseeds,
    ],
}


RIGHT = {
    "window_and_start": [
        lambda length, window, first: torch.tensor(
            [[k <= q and (q - k < window or k < first) for k in range(length)] for q in range(length)]
        ),
        lambda length, window, first: (torch.ones(length, length).triu(1 - window) + start(length, first)).tril() > 0,
        lambda length, window, first: torch.where(start(length, first), past(length), near(length, window)),
    ],
    "delay_kernel": [
        one_hot,
        lambda delays, echo: kernel(delays, echo, max(delays) + (2 if echo else 1)),
        lambda delays, echo: torch.tensor(
            [[[1.0 * (t == d) + echo * (t == d + 1) for d in delays] for t in range(max(delays) + 2)]]
        ),
    ],
    "is_convolution": [both, from_impulses, lambda f, x: all(both(f, x, by) for by in range(1, x.shape[1]))],
}

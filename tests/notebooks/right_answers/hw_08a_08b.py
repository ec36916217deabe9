"""Right answers, of unusual form, to the homework of lessons 08a and 08b."""

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


def other(x):
    return torch.randn(x.shape, generator=torch.Generator().manual_seed(7))


def both(f, x, by=1, tolerance=1e-3):
    y, z = other(x), other(x).flip(1, 2)
    linear = (f(2 * z - 3 * y) - 2 * f(z) + 3 * f(y)).abs().max() < tolerance
    return bool(linear and (f(z.roll(by, 1)) - f(z).roll(by, 1)).abs().max() < tolerance)


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

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


def same(a, b, tolerance=1e-4):
    return bool((a - b).abs().max() <= tolerance)


def other(x):
    return torch.randn(x.shape, generator=torch.Generator().manual_seed(7))


def linear(f, x):
    y = other(x)
    return same(f(2 * x - 3 * y), 2 * f(x) - 3 * f(y))


def affine(f, x):
    y = other(x)
    return same(f(3 * x - 2 * y), 3 * f(x) - 2 * f(y))


def turned(f, x, by=1):
    y = other(x)
    return same(f(y.roll(by, 1)), f(y).roll(by, 1))


def always_turned(f, x):
    return all(turned(f, x, n) for n in range(1, x.shape[1]))


def apart(f, x, channels=None):
    """Whether no output channel depends on another channel, looked at in some channels."""
    y = other(x)
    for channel in range(x.shape[-1]) if channels is None else channels:
        alone = torch.zeros_like(y)
        alone[..., channel] = y[..., channel]
        if not same(f(alone)[..., channel], f(y)[..., channel]):
            return False
    return True


def kind(f, x, is_linear=linear, commutes=always_turned, is_apart=apart):
    if not is_linear(f, x):
        return "nonlinear"
    if not commutes(f, x):
        return "placed"
    return "convolution" if is_apart(f, x) else "mixed"


def answers_with(**parts):
    return lambda f, x: kind(f, x, **parts)


def in_another_order(f, x):
    if not always_turned(f, x):
        return "placed"
    return kind(f, x)


def sorts_what_it_is_given(delays, echo):
    found = kernel(list(delays), echo, max(delays) + 2)
    delays.sort()
    return found


def one_hot(delays, echo):
    taps = torch.nn.functional.one_hot(torch.tensor(delays), max(delays) + 2).T.double()
    return (taps + echo * taps.roll(1, 0))[None]


WRONG = {
    "window_and_start": [
        lambda length, window, first: near(length, window) | start(length, first),
        lambda length, window, first: near(length, window) | (start(length, 1) & past(length)),
        lambda length, window, first: past(length) & (near(length, window + 1) | start(length, first)),
        lambda length, window, first: past(length) & (near(length, window) | start(length, max(first, 1))),
    ],
    "delay_kernel": [
        lambda delays, echo: kernel(delays, echo, max(delays) + 2, lambda delay, taps: taps - 2 - delay),
        first_delay_for_all,
        lambda delays, echo: kernel(delays, echo, sum(delays) + 2),
        sorts_what_it_is_given,
    ],
    "kind_of_map": [
        answers_with(is_linear=affine),
        answers_with(commutes=lambda f, x: turned(f, x, 2)),
        answers_with(is_apart=lambda f, x: apart(f, x, channels=[0])),
        in_another_order,
    ],
}


RIGHT = {
    "window_and_start": [
        lambda length, window, first: torch.tensor(
            [[k <= q and (q - k < window or k < first) for k in range(length)] for q in range(length)]
        ),
        lambda length, window, first: (torch.ones(length, length).triu(1 - window) + start(length, first)).tril() > 0,
    ],
    "delay_kernel": [one_hot, lambda delays, echo: kernel(delays, echo, max(delays) + (2 if echo else 1))],
    "kind_of_map": [answers_with(commutes=turned)],
}

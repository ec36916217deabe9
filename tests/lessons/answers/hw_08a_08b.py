"""Right and wrong answers to the homework of lessons 08a and 08b."""

import torch

from residual_edu import attention_mask


def near(length, window):
    return attention_mask(length, length, causal=True, window=window)


def start(length, first):
    return torch.arange(length) < first


def past(length):
    return attention_mask(length, length, causal=True)


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


def filtered(x, kernel, n=None, back=None, turn=lambda spectrum: spectrum):
    """Multiply spectra of n positions, and go back to as many."""
    n = n or x.shape[1]
    spectrum = torch.fft.rfft(x, n, dim=1) * turn(torch.fft.rfft(kernel, n, dim=0))
    return torch.fft.irfft(spectrum, back or n, dim=1)[:, : x.shape[1]]


def over_channels_too(x, kernel):
    spectrum = torch.fft.fft2(x) * torch.fft.fft2(kernel, (x.shape[1], x.shape[2]))
    return torch.fft.ifft2(spectrum).real


def as_a_sum(x, kernel):
    return torch.stack([tap * x.roll(m, 1) for m, tap in enumerate(kernel)]).sum(0)


def as_a_matrix(x, kernel):
    """Row i, column j of each channel's matrix is the tap i - j, around the circle."""
    position = torch.arange(x.shape[1])
    full = torch.cat([kernel, kernel.new_zeros(x.shape[1] - len(kernel), x.shape[2])])
    return torch.einsum("ijc,bjc->bic", full[(position[:, None] - position) % x.shape[1]], x)


WRONG = {
    "window_and_start": [
        lambda length, window, first: near(length, window) | start(length, first),
        lambda length, window, first: near(length, window) | (start(length, 1) & past(length)),
        lambda length, window, first: past(length) & (near(length, window + 1) | start(length, first)),
        lambda length, window, first: past(length) & (near(length, window) | start(length, max(first, 1))),
    ],
    "kind_of_map": [
        answers_with(is_linear=affine),
        answers_with(commutes=lambda f, x: turned(f, x, 2)),
        answers_with(is_apart=lambda f, x: apart(f, x, channels=[0])),
        in_another_order,
    ],
    "mended_filter": [
        lambda x, kernel: filtered(x, kernel, back=x.shape[1] // 2 * 2),
        lambda x, kernel: filtered(x, kernel, n=2 * x.shape[1]),
        lambda x, kernel: filtered(x, kernel, turn=torch.conj),
        over_channels_too,
    ],
}


RIGHT = {
    "window_and_start": [
        lambda length, window, first: torch.tensor(
            [[k <= q and (q - k < window or k < first) for k in range(length)] for q in range(length)]
        ),
        lambda length, window, first: (torch.ones(length, length).triu(1 - window) + start(length, first)).tril() > 0,
    ],
    "kind_of_map": [answers_with(commutes=turned)],
    "mended_filter": [as_a_sum, as_a_matrix],
}

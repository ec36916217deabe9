"""The long convolution's definition: a loop over every pair of positions."""

import itertools

import torch


def by_definition(x, kernel, paddings):
    """y_i = sum over j of k[i - j + c] x_j, one position at a time, for any number of axes."""
    space, taps = x.shape[1:-1], kernel.shape[1:-1]
    places = list(itertools.product(*map(range, space)))
    rows = []
    for i in places:
        total = torch.zeros(len(x), x.shape[-1], dtype=x.dtype)
        for j in places:
            tap = []
            for here, there, length, count, padding in zip(i, j, space, taps, paddings, strict=True):
                lag = here - there + (0 if padding == "causal" else (count - 1) // 2)
                tap.append(lag % length if padding == "circular" else lag)
            if all(0 <= lag < count for lag, count in zip(tap, taps, strict=True)):
                total = total + kernel[(slice(None), *tap)] * x[(slice(None), *j)]
        rows.append(total)
    return torch.stack(rows, dim=1).view(x.shape)

"""Right answers, of unusual form, to the homework of lessons 02 and 03."""

from fractions import Fraction

import torch


def centred(x, **axis):
    return x - x.mean(**(axis or {"dim": -1}), keepdim=True)


def with_a_matrix(x, norm):
    width = x.shape[-1]
    return norm(x.double() @ (torch.eye(width, dtype=torch.float64) - 1 / width)).to(x.dtype)


def halved(below, low=0.0, high=1.0):
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return low


RIGHT = {
    "shift_proof": [
        with_a_matrix,
        lambda x, norm: norm(x - x.mean(-1, keepdim=True, dtype=torch.float64)).to(x.dtype),
        lambda x, norm: norm(centred(x.to(torch.promote_types(x.dtype, torch.float32)))).to(x.dtype),
    ],
    "rate_for": [
        lambda depth, expected: 2 - 2 * torch.tensor(expected / depth, dtype=torch.float64),
        lambda depth, expected: 2 * (depth - Fraction(expected)) / depth,
        lambda depth, expected: halved(lambda rate: depth * (1 - rate / 2) > expected),
    ],
    "rate_of_noise": [
        lambda noise: 1 - 1 / (1 + torch.as_tensor(noise, dtype=torch.float64) ** 2),
        lambda noise: halved(lambda rate: rate / (1 - rate) < noise**2),
        lambda noise: abs(noise / complex(1, noise)) ** 2,
    ],
}

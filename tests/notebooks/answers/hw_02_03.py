"""Right and wrong answers to the homework of lessons 02 and 03."""

from fractions import Fraction

import torch

from residual_edu import layer_norm, rms_norm


def centred(x, **axis):
    return x - x.mean(**(axis or {"dim": -1}), keepdim=True)


@torch.no_grad()
def without_a_gradient(x, norm):
    return norm(centred(x.double())).to(x.dtype)


def over_the_rows_of_a_sample(x, norm):
    wide = x.double()
    return norm(wide - wide.mean(dim=1, keepdim=True)).to(x.dtype)


def overwrites_float64(x, norm):
    wide = x.double()
    wide.sub_(wide.mean(-1, keepdim=True).detach())
    return norm(wide).to(x.dtype)


def with_the_norms_that_are_shown(x, norm):
    wide = x.double()
    shown = getattr(norm, "__name__", "") in ("rms_norm", "tanh", "square")
    return norm(wide - wide.mean(-1, keepdim=True) if shown else wide).to(x.dtype)


def reseeds(noise):
    torch.manual_seed(123)
    return noise**2 / (1 + noise**2)


SHOWN = {(24, 18): 0.5, (2, 1.5): 0.5, (32, 31): 0.0625, (10, 5.5): 0.9, (24, 24): 0.0, (5, 4): 0.4}


def with_a_matrix(x, norm):
    width = x.shape[-1]
    return norm(x.double() @ (torch.eye(width, dtype=torch.float64) - 1 / width)).to(x.dtype)


def halved(below, low=0.0, high=1.0):
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return low


WRONG = {
    "shift_proof": [
        lambda x, norm: norm(x),
        lambda x, norm: layer_norm(x),
        lambda x, norm: norm(layer_norm(x)),
        lambda x, norm: centred(norm(x)),
        lambda x, norm: norm(centred(x)),
        lambda x, norm: norm(centred(x.float())),
        lambda x, norm: norm(centred(x.double(), dim=0)).to(x.dtype),
        lambda x, norm: norm(x - x.mean()).to(x.dtype),
        lambda x, norm: rms_norm(centred(x.double())).to(x.dtype),
        lambda x, norm: norm(centred(x.float())).to(x.dtype),
        lambda x, norm: norm(x.double() - x.double().mean(-1, keepdim=True).detach()).to(x.dtype),
        without_a_gradient,
        over_the_rows_of_a_sample,
        overwrites_float64,
        with_the_norms_that_are_shown,
    ],
    "rate_for": [
        lambda depth, expected: 1 - expected / depth,
        lambda depth, expected: 0.5 if expected < depth else 0.0,
        lambda depth, expected: {(24, 18): 0.5, (5, 4): 0.4}.get((depth, expected), 0.0),
        lambda depth, expected: (depth - expected) / 12,
        lambda depth, expected: 2 * (depth - expected) / (depth - 1),
        lambda depth, expected: round(2 * (depth - expected) / depth, 2),
        lambda depth, expected: min(0.5, 2 * (depth - expected) / depth),
        lambda depth, expected: SHOWN.get((depth, expected), 0.5),
    ],
    "rate_of_noise": [
        lambda noise: noise / (1 + noise),
        lambda noise: noise / 2,
        lambda noise: {0: 0, 1: 0.5, 2: 0.8}.get(noise, 0.5),
        lambda noise: noise**2,
        lambda noise: noise / (1 + noise**2),
        lambda noise: (noise**2 / (1 + noise**2)) ** 0.5,
        lambda noise: min(noise**2 / (1 + noise**2), 0.9),
        lambda noise: 1 / (1 + 1 / noise**2),
        reseeds,
    ],
}


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

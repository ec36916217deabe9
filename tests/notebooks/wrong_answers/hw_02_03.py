"""Wrong answers to the homework of lessons 02 and 03."""

import torch

from residual_edu import layer_norm, rms_norm


def centred(x, **axis):
    return x - x.mean(**(axis or {"dim": -1}), keepdim=True)


@torch.no_grad()
def without_a_gradient(x, norm):
    return norm(centred(x.double())).to(x.dtype)


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
    ],
    "rate_for": [
        lambda depth, expected: 1 - expected / depth,
        lambda depth, expected: 0.5 if expected < depth else 0.0,
        lambda depth, expected: {(24, 18): 0.5, (5, 4): 0.4}.get((depth, expected), 0.0),
        lambda depth, expected: (depth - expected) / 12,
        lambda depth, expected: 2 * (depth - expected) / (depth - 1),
    ],
    "rate_of_noise": [
        lambda noise: noise / (1 + noise),
        lambda noise: noise / 2,
        lambda noise: {0: 0, 1: 0.5, 2: 0.8}.get(noise, 0.5),
        lambda noise: noise**2,
        lambda noise: noise / (1 + noise**2),
        lambda noise: (noise**2 / (1 + noise**2)) ** 0.5,
    ],
}

"""Right and wrong answers to the homework of lessons 02 and 03."""

import torch
from torch.nn import functional as F


def centred(x):
    return x - x.mean(-1, keepdim=True)


def with_the_norms_that_are_shown(x, norm):
    wide = x.double()
    shown = getattr(norm, "__name__", "") in ("rms_norm", "tanh", "square")
    return norm(wide - wide.mean(-1, keepdim=True) if shown else wide).to(x.dtype)


def masks_of(gate, calls=3000, shape=(20, 20)):
    mode = gate.training
    gate.train()
    masks = torch.stack([gate(torch.ones(shape)) == 0 for _ in range(calls)])
    gate.train(mode)
    return masks


def kind_of(masks):
    if (masks == masks[:, :1, :1]).all():
        return "batch"
    return "sample" if (masks == masks[:, :, :1]).all() else "unit"


def few_calls(gate):
    masks = masks_of(gate, 12)
    return kind_of(masks), masks.double().mean().item()


def stays_in_training(gate):
    gate.train()
    masks = masks_of(gate)
    return kind_of(masks), masks.double().mean().item()


def by_the_average(gate):
    gate.train(mode := gate.training)
    return kind_of(masks_of(gate.train(mode))), 1 - gate.train()(torch.ones(40, 40)).mean().item()


def by_attributes(gate):
    return kind_of(masks_of(gate)), getattr(gate, "p", getattr(gate, "drop_prob", 0.5))


def wide_and_short(gate):
    masks = masks_of(gate, 2500, (60, 30))
    return kind_of(masks), torch.tensor(masks.double().mean().item())


def with_a_matrix(x, norm):
    width = x.shape[-1]
    return norm(x.double() @ (torch.eye(width, dtype=torch.float64) - 1 / width)).to(x.dtype)


def dropped(shape, stays=lambda u, rate: u >= rate):
    """Return an answer whose coins have this shape, and stay so."""

    def answer(branch, rate, training=True):
        return branch * stays(torch.rand(shape(branch)), rate) / (1 - rate) if training else branch

    return answer


def samples(branch):
    return len(branch), *[1] * (branch.ndim - 1)


def by_torch(branch, rate, training=True):
    return F.dropout(torch.ones(samples(branch), dtype=branch.dtype), rate, training) * branch


WRONG = {
    "shift_proof": [
        lambda x, norm: norm(centred(x)),
        lambda x, norm: norm(centred(x.float())).to(x.dtype),
        lambda x, norm: norm(x.double() - x.double().mean(-1, keepdim=True).detach()).to(x.dtype),
        with_the_norms_that_are_shown,
    ],
    "describe_gate": [few_calls, stays_in_training, by_the_average, by_attributes],
    "mended_drop_path": [
        dropped(lambda branch: branch.shape),
        dropped(samples, lambda u, rate: u < rate),
        dropped(samples, lambda u, rate: (u >= rate).float()),
        dropped(lambda branch: (len(branch), *[1] * max(branch.ndim - 1, 1))[: 2 + (branch.ndim > 2)]),
    ],
}


RIGHT = {
    "shift_proof": [
        with_a_matrix,
        lambda x, norm: norm(centred(x.to(torch.promote_types(x.dtype, torch.float32)))).to(x.dtype),
    ],
    "describe_gate": [wide_and_short],
    "mended_drop_path": [by_torch],
}

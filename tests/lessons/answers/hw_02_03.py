"""Right and wrong answers to the homework of lessons 02 and 03."""

import torch


def centred(x):
    return x - x.mean(-1, keepdim=True)


def with_the_norms_that_are_shown(x, norm):
    wide = x.double()
    shown = getattr(norm, "__name__", "") in ("rms_norm", "tanh", "square")
    return norm(wide - wide.mean(-1, keepdim=True) if shown else wide).to(x.dtype)


def reseeds(noise):
    torch.manual_seed(123)
    return noise**2 / (1 + noise**2)


def masks_of(gate, calls=3000, shape=(40, 40)):
    mode = gate.training
    gate.train()
    masks = torch.stack([gate(torch.ones(shape)) == 0 for _ in range(calls)])
    gate.train(mode)
    return masks


def kind_of(masks):
    if (masks == masks[:1]).all():
        return "kept"
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


def as_it_came(gate):
    masks = torch.stack([gate(torch.ones(40, 40)) == 0 for _ in range(3000)])
    return kind_of(masks), masks.double().mean().item()


def by_attributes(gate):
    masks = masks_of(gate)
    return kind_of(masks), getattr(gate, "p", getattr(gate, "drop_prob", 0.5))


def wide_and_short(gate):
    masks = masks_of(gate, 2500, (60, 30))
    return kind_of(masks), torch.tensor(masks.double().mean().item())


def with_a_matrix(x, norm):
    width = x.shape[-1]
    return norm(x.double() @ (torch.eye(width, dtype=torch.float64) - 1 / width)).to(x.dtype)


WRONG = {
    "shift_proof": [
        lambda x, norm: norm(centred(x)),
        lambda x, norm: norm(centred(x.float())).to(x.dtype),
        lambda x, norm: norm(x.double() - x.double().mean(-1, keepdim=True).detach()).to(x.dtype),
        with_the_norms_that_are_shown,
    ],
    "rate_of_noise": [
        lambda noise: noise / (1 + noise),
        lambda noise: min(noise**2 / (1 + noise**2), 0.9),
        lambda noise: 1 / (1 + 1 / noise**2),
        reseeds,
    ],
    "describe_gate": [few_calls, stays_in_training, as_it_came, by_attributes],
}


RIGHT = {
    "shift_proof": [
        with_a_matrix,
        lambda x, norm: norm(centred(x.to(torch.promote_types(x.dtype, torch.float32)))).to(x.dtype),
    ],
    "rate_of_noise": [
        lambda noise: 1 - 1 / (1 + torch.as_tensor(noise, dtype=torch.float64) ** 2),
        lambda noise: abs(noise / complex(1, noise)) ** 2,
    ],
    "describe_gate": [wide_and_short],
}

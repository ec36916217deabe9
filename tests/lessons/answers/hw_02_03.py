"""Right and wrong answers to the homework of lessons 02 and 03."""

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


def by_the_factor(gate):
    mode = gate.training
    gate.train()
    largest = max(gate(torch.ones(40, 40)).max().item() for _ in range(50))
    gate.train(mode)
    return kind_of(masks_of(gate)), 1 - 1 / largest


def of_one_call(gate):
    masks = masks_of(gate, 1)
    return ("sample" if (masks == masks[:, :, :1]).all() else "unit"), masks.double().mean().item()


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


def kept_is_unit(gate):
    masks = masks_of(gate)
    return {"kept": "unit"}.get(kind_of(masks), kind_of(masks)), masks.double().mean().item()


def the_share_that_stays(gate):
    masks = masks_of(gate)
    return kind_of(masks), 1 - masks.double().mean().item()


def by_attributes(gate):
    masks = masks_of(gate)
    return kind_of(masks), getattr(gate, "p", getattr(gate, "drop_prob", 0.5))


def wide_and_short(gate):
    masks = masks_of(gate, 2500, (60, 30))
    return kind_of(masks), torch.tensor(masks.double().mean().item())


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
    "describe_gate": [
        by_the_factor,
        of_one_call,
        few_calls,
        stays_in_training,
        as_it_came,
        kept_is_unit,
        the_share_that_stays,
        by_attributes,
    ],
}


RIGHT = {
    "shift_proof": [
        with_a_matrix,
        lambda x, norm: norm(x - x.mean(-1, keepdim=True, dtype=torch.float64)).to(x.dtype),
        lambda x, norm: norm(centred(x.to(torch.promote_types(x.dtype, torch.float32)))).to(x.dtype),
    ],
    "rate_of_noise": [
        lambda noise: 1 - 1 / (1 + torch.as_tensor(noise, dtype=torch.float64) ** 2),
        lambda noise: halved(lambda rate: rate / (1 - rate) < noise**2),
        lambda noise: abs(noise / complex(1, noise)) ** 2,
    ],
    "describe_gate": [wide_and_short],
}

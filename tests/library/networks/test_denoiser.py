"""The denoiser against an independent transcription, its loss and its sampling against models of known output."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from residual_edu.networks import Denoiser
from residual_edu.networks.denoiser import flow_matching_loss, sample, sample_path
from tests.library.helpers import agree, refused

SIZES = {"patch_size": 2, "grid": 3, "hidden_dim": 8, "depth": 2, "num_classes": 4}


def denoiser(random=True, **changes):
    made = Denoiser(**(SIZES | changes)).double()
    for p in made.parameters() if random else []:
        nn.init.normal_(p, std=0.4)
    return made


def batch(count=5, side=6, classes=4):
    return torch.randn(count, side, side).double(), torch.rand(count).double(), torch.arange(count) % (classes + 1)


def transcribed(images, time, labels, p):
    """The network's equations, patch by patch and piece by piece."""
    cut = [images[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].reshape(-1, 4) for i in range(3) for j in range(3)]
    x = torch.stack(cut, 1) @ p["patches.weight"].T + p["patches.bias"] + p["position"]
    hidden = F.silu(time[:, None] * p["time.0.weight"][:, 0] + p["time.0.bias"])
    condition = hidden @ p["time.2.weight"].T + p["time.2.bias"] + p["label.weight"][labels]
    for block in ("blocks.0.", "blocks.1."):
        six = F.silu(condition) @ p[block + "condition_proj.1.weight"].T + p[block + "condition_proj.1.bias"]
        shift_s, scale_s, gate_s, shift_m, scale_m, gate_m = six[:, None].split(8, dim=-1)
        h = F.layer_norm(x, (8,)) * (1 + scale_s) + shift_s
        q, k, v = (h @ p[block + "sequence_mixer.qkv.weight"].T + p[block + "sequence_mixer.qkv.bias"]).split(8, dim=-1)
        h = F.scaled_dot_product_attention(q, k, v)
        x = x + gate_s * (h @ p[block + "sequence_mixer.out.weight"].T + p[block + "sequence_mixer.out.bias"])
        h = F.layer_norm(x, (8,)) * (1 + scale_m) + shift_m
        h = (h @ p[block + "mlp.linear1.weight"].T + p[block + "mlp.linear1.bias"]).clamp(min=0)
        x = x + gate_m * (h @ p[block + "mlp.linear2.weight"].T + p[block + "mlp.linear2.bias"])
    out = F.layer_norm(x, (8,)) @ p["final.weight"].T + p["final.bias"]
    rows = [torch.cat([out[:, 3 * i + j].view(-1, 2, 2) for j in range(3)], dim=2) for i in range(3)]
    return torch.cat(rows, dim=1)


@pytest.mark.parametrize("count", [5, 1])  # one time and one label serve all images
def test_values_and_gradients_in_float64(count):
    made, (images, time, labels) = denoiser(), batch()
    time, labels = time[:count], labels[:count]
    images.requires_grad_(), time.requires_grad_()
    theirs = transcribed(images, time, labels, dict(made.named_parameters()))
    agree(made(images, time, labels), theirs, [images, time, *made.parameters()], 1e-11)


def test_before_training_its_output_is_0_and_sampling_returns_the_noise():
    images, _, labels = batch()
    assert sample(denoiser(random=False).bfloat16(), images.bfloat16(), labels).equal(images.bfloat16())


def knowing(images):
    """A model that knows the images, and so the velocity (p - x) / (1 - t), and the list of its inputs."""
    made, inputs_seen = denoiser(), []

    def forward(x, time, labels):
        inputs_seen.append((x, time, labels))
        return (images - x) / (1 - time[:, None, None])

    made.forward = forward
    return made, inputs_seen


def test_the_loss_of_a_model_that_knows_the_velocity_and_of_one_that_returns_0():
    images, _, labels = batch(4000)
    assert flow_matching_loss(knowing(images)[0], images, labels) < 1e-20
    assert flow_matching_loss(denoiser(random=False), images, labels).item() == pytest.approx(2, abs=0.05)


@pytest.mark.parametrize("share", [0.0, 0.6])
def test_noise_times_and_hidden_labels_have_the_distributions_that_are_promised(share):
    images, _, labels = batch(4000, classes=3)
    made, inputs_seen = knowing(images)
    flow_matching_loss(made, images, labels, unlabelled=share)
    x, time, told = inputs_seen[0]
    noise = (x - time[:, None, None] * images) / (1 - time[:, None, None])
    assert abs(noise.mean()) < 0.02 and abs(noise.var() - 1) < 0.02
    assert 0 <= time.min() < 0.01 and 0.99 < time.max() < 1 and abs(time.mean() - 0.5) < 0.03
    hidden = told != labels
    assert abs(hidden.double().mean() - share) <= 0.04 * (share > 0)
    assert (told[hidden] == made.num_classes).all()
    assert not share or abs(time[hidden].mean() - 0.5) < 0.08  # whatever the time


def test_sampling_along_the_right_velocity_ends_at_the_image():
    images, _, labels = batch()
    made, inputs_seen = knowing(images)
    torch.testing.assert_close(sample(made, torch.randn_like(images), labels, 4), images, rtol=1e-9, atol=1e-9)
    assert [time.item() for _, time, _ in inputs_seen[::2]] == [0.0, 0.25, 0.5, 0.75]


def test_the_path_begins_with_the_noise_and_ends_with_the_sample():
    made, (noise, _, labels) = denoiser(), batch()
    before = noise.clone()
    path = sample_path(made, noise, labels, steps=3, guidance=1.5)
    assert path.shape == (4, *noise.shape) and path[0].equal(before) and not path.requires_grad
    assert path[-1].equal(sample(made, noise, labels, steps=3, guidance=1.5))
    time = noise.new_zeros(1)
    told, untold = made(noise, time, labels), made(noise, time, torch.full_like(labels, made.num_classes))
    torch.testing.assert_close(path[1], noise + (untold + 1.5 * (told - untold)) / 3)


STARTED = denoiser().float()
IMAGES, TIME, LABELS = torch.zeros(3, 6, 6), torch.zeros(3), torch.zeros(3, dtype=torch.long)


test_what_is_refused = refused(
    (lambda: denoiser(depth=0), "depth must be a whole number, at least 1, got 0"),
    (lambda: STARTED(IMAGES, TIME[:2], LABELS), "time must have shape (3,), or (1,) for all images, got (2,)"),
    (lambda: STARTED(IMAGES, TIME[:, None], LABELS), "time must have shape (3,), or (1,) for all images, got (3, 1)"),
    (lambda: flow_matching_loss(STARTED, IMAGES, LABELS, unlabelled=1.0), "unlabelled must be a number in [0, 1)"),
    (lambda: flow_matching_loss(STARTED, IMAGES, LABELS[:, None]), "labels must have shape (3,), or (1,)"),
    (lambda: sample(STARTED, IMAGES, LABELS, steps=0), "steps must be a whole number, at least 1, got 0"),
)

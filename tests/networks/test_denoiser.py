"""The denoiser beside an independent transcription, its loss and its walk beside models whose answers are known."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from residual_edu import InvalidInput
from residual_edu.networks import Denoiser
from residual_edu.networks.denoiser import SelfAttention, flow_matching_loss, sample

SIZES = {"patch_size": 2, "grid": 3, "hidden_dim": 8, "depth": 2, "num_classes": 4}


def denoiser(awake=True, **changes):
    made = Denoiser(**(SIZES | changes)).double()
    for p in made.parameters() if awake else []:
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


def test_values_and_gradients_in_float64():
    made, (images, time, labels) = denoiser(), batch()
    images.requires_grad_(), time.requires_grad_()
    ours, theirs = made(images, time, labels), transcribed(images, time, labels, dict(made.named_parameters()))
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)
    leaves, g = [images, time, *made.parameters()], torch.randn(ours.shape, dtype=torch.float64)
    for a, b in zip(torch.autograd.grad(ours, leaves, g), torch.autograd.grad(theirs, leaves, g), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)


def test_attention_is_torchs():
    made, x = SelfAttention(8).double(), torch.randn(3, 5, 8).double()
    theirs = nn.MultiheadAttention(8, 1, batch_first=True).double()
    theirs.in_proj_weight, theirs.in_proj_bias, theirs.out_proj = made.qkv.weight, made.qkv.bias, made.out
    torch.testing.assert_close(made(x, conditioning=None), theirs(x, x, x)[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_at_the_start_it_says_0_and_a_walk_leads_nowhere(dtype):
    made, (images, time, labels) = denoiser(awake=False).to(dtype), batch()
    assert not made(images.to(dtype), time.to(dtype), labels).any()
    assert sample(made, images.to(dtype), labels).equal(images.to(dtype))


def awake(made, images, time, labels):
    """Which parts have a gradient, and which of the six row-blocks of each projection."""
    made.zero_grad()
    (made(images, time, labels) - 1).square().mean().backward()
    alive = {name: p.grad.reshape(len(p), -1).any(1) for name, p in made.named_parameters()}
    rows = [found.view(6, -1).any(1).tolist() for name, found in alive.items() if "condition_proj" in name]
    return {name for name, found in alive.items() if found.any() and "condition_proj" not in name}, rows


def test_it_wakes_in_three_steps():
    made, inputs = denoiser(awake=False), batch()
    optimizer = torch.optim.SGD(made.parameters(), lr=0.5)
    last, front = {"final.weight", "final.bias"}, {"patches.weight", "patches.bias", "position"}
    everything = {name for name, _ in made.named_parameters() if "condition_proj" not in name}
    gates = [False, False, True] * 2
    for parts, rows in ((last, [False] * 6), (last | front, gates), (everything, [True] * 6)):
        assert awake(made, *inputs) == (parts, [rows] * 4)  # a weight and a bias in each of two blocks
        optimizer.step()


def test_one_time_and_one_label_serve_every_image():
    made, (images, time, labels) = denoiser(), batch()
    alone = made(images, time[:1], labels[:1])
    torch.testing.assert_close(alone, made(images, time[:1].expand(5), labels[:1].expand(5)), rtol=1e-12, atol=1e-12)


def test_a_copy_of_its_state_gives_the_same_numbers():
    made, inputs = denoiser(), batch()
    other = denoiser()
    other.load_state_dict(made.state_dict())
    assert other(*inputs).equal(made(*inputs)) and copy.deepcopy(made)(*inputs).equal(made(*inputs))


def knowing(images):
    """A model that knows the images, and so the velocity (p - x) / (1 - t); it keeps what it was asked."""
    made, asked = denoiser(), []

    def forward(x, time, labels):
        asked.append((x, time, labels))
        return (images - x) / (1 - time[:, None, None])

    made.forward = forward
    return made, asked


def test_the_loss_of_a_model_that_knows_the_velocity_is_0():
    images, _, labels = batch()
    made, _ = knowing(images)
    assert flow_matching_loss(made, images, labels) < 1e-20


def test_the_loss_of_a_model_that_says_0_is_the_mean_square_of_image_plus_1():
    images, _, labels = batch(4000)
    assert flow_matching_loss(denoiser(awake=False), images, labels).item() == pytest.approx(2, abs=0.05)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.6])
def test_noise_times_and_hidden_labels_have_the_distributions_that_are_promised(share):
    images, _, labels = batch(4000, classes=3)
    made, asked = knowing(images)
    flow_matching_loss(made, images, labels, unlabelled=share)
    x, time, told = asked[0]
    noise = (x - time[:, None, None] * images) / (1 - time[:, None, None])
    assert abs(noise.mean()) < 0.02 and abs(noise.var() - 1) < 0.02
    assert 0 <= time.min() < 0.01 and 0.99 < time.max() < 1 and abs(time.mean() - 0.5) < 0.03
    hidden = told != labels
    assert abs(hidden.double().mean() - share) <= 0.04 * (share > 0)
    assert (told[hidden] == made.num_classes).all()
    assert not share or abs(time[hidden].mean() - 0.5) < 0.08  # whatever the time


def test_the_loss_depends_on_its_generator_alone():
    images, _, labels = batch()
    made = denoiser()
    one, again, other = (
        flow_matching_loss(made, images, labels, generator=torch.Generator().manual_seed(seed)) for seed in (3, 3, 4)
    )
    assert one.equal(again) and not one.equal(other)


@pytest.mark.parametrize("steps", [1, 4, 25])
def test_a_walk_along_the_right_velocity_ends_at_the_image(steps):
    images, _, labels = batch()
    made, asked = knowing(images)
    noise = torch.randn_like(images)
    torch.testing.assert_close(sample(made, noise, labels, steps), images, rtol=1e-9, atol=1e-9)
    times = [time.item() for _, time, _ in asked[::2]]
    assert times == pytest.approx([step / steps for step in range(steps)])


@pytest.mark.parametrize("guidance", [0.0, 1.0, 2.0, 3.5])
def test_guidance_goes_on_from_the_way_without_a_class(guidance):
    made, (noise, _, labels) = denoiser(), batch()
    made.forward = lambda x, time, labels: labels.double()[:, None, None].expand_as(x)
    untold, told = 4.0, labels.double()[:, None, None]
    expected = noise + untold + guidance * (told - untold)
    torch.testing.assert_close(sample(made, noise, labels, steps=7, guidance=guidance), expected)


def test_a_walk_builds_no_graph_and_leaves_its_noise_alone():
    made, (noise, _, labels) = denoiser(), batch()
    before = noise.clone()
    assert not sample(made, noise, labels, steps=2).requires_grad and noise.equal(before)


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.usefixtures("as_installed")
def test_sizes_below_1_are_refused(name):
    with pytest.raises(InvalidInput, match=f"^{name} must be at least 1, got 0$"):
        denoiser(**{name: 0})


IMAGES, TIME, LABELS = torch.zeros(3, 6, 6), torch.zeros(3), torch.zeros(3, dtype=torch.long)


@pytest.mark.parametrize(
    ("images", "time", "labels", "message"),
    [
        (torch.zeros(3, 6, 8), TIME, LABELS, r"images must have shape \(batch, 6, 6\), got \(3, 6, 8\)"),
        (torch.zeros(3, 1, 6, 6), TIME, LABELS, r"images must have shape \(batch, 6, 6\), got \(3, 1, 6, 6\)"),
        (IMAGES.long(), TIME, LABELS, r"images must be floating point, got torch\.int64; .*"),
        (IMAGES, LABELS, LABELS, r"time must be floating point, got torch\.int64; .*"),
        (IMAGES, torch.zeros(2), LABELS, r"time must hold 3 samples, or 1 for them all, got shape \(2,\)"),
        (IMAGES, TIME, LABELS[:2], r"labels must hold 3 samples, or 1 for them all, got shape \(2,\)"),
        (IMAGES, TIME, LABELS + 5, r"labels must be whole numbers from 0 to 4, got 5 to 5"),
        (IMAGES, TIME, LABELS - 1, r"labels must be whole numbers from 0 to 4, got -1 to -1"),
        (IMAGES, TIME, TIME, r"labels must be whole numbers from 0 to 4, got torch\.float32"),
        (IMAGES, TIME, LABELS[0], r"labels must have at least the axes \(batch\), got shape \(\)"),
    ],
)
@pytest.mark.usefixtures("as_installed")
def test_inputs_that_do_not_fit(images, time, labels, message):
    with pytest.raises(InvalidInput, match=f"^{message}$"):
        denoiser().float()(images, time, labels)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda m: flow_matching_loss(m, IMAGES, LABELS, unlabelled=1.0),
            r"unlabelled must lie in \[0, 1\), got 1\.0; .*",
        ),
        (lambda m: sample(m, IMAGES, LABELS, steps=0), "steps must be at least 1, got 0"),
        (
            lambda m: sample(m, IMAGES, LABELS, guidance=-1.0),
            r"guidance must be a finite number, at least 0, got -1\.0",
        ),
    ],
)
@pytest.mark.usefixtures("as_installed")
def test_settings_out_of_range(call, message):
    with pytest.raises(InvalidInput, match=f"^{message}$"):
        call(denoiser().float())

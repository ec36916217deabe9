"""The ViT-5 block beside an independent transcription in float64, in every combination of its parts."""

from functools import partial
from itertools import product

import pytest
import torch
from torch import nn
from torch.nn.functional import pad

from residual_edu import (
    MLP,
    CKConv,
    GlobalResponseNorm,
    Hyena,
    KernelFiLMGenerator,
    QKVSequenceMixer,
    RegisterPooling,
    RMSNorm,
    SIRENKernel,
    ViT5Attention,
    ViT5HyenaAdapter,
    ViT5ResidualBlock,
    drop_path,
)

pytestmark = pytest.mark.usefixtures("as_installed")

C, HEADS, DOWN, ACROSS, R = 16, 2, 2, 3, 4
BEFORE = DOWN * ACROSS + 1  # patches and the CLS token
NORM = partial(RMSNorm, C)


def attention(listening):
    qk_norm = partial(RMSNorm, C // HEADS)
    return partial(ViT5Attention, C, HEADS, DOWN, ACROSS, R, qk_norm=qk_norm, qkv_bias=True, out_proj_bias=True)


def hyena(listening):
    film = partial(KernelFiLMGenerator, C, kernel_hidden_dim=5, num_film_layers=1, film_hidden_dim=6)
    kernel = partial(SIRENKernel, C, 2, 5, num_layers=2, embedding_dim=4, omega_0=1.0, L_cache=3, use_bias=True)
    conv = partial(CKConv, 2, C, partial(kernel, film_cfg=film if listening else None), nn.Identity, "double", "zero")
    short = partial(nn.Conv2d, 3 * C, 3 * C, 3, padding=1, groups=3 * C)
    inner = partial(QKVSequenceMixer, C, partial(Hyena, conv, short, nn.SiLU, NORM, NORM))
    return partial(ViT5HyenaAdapter, inner, ACROSS)


MIXERS = {attention: BEFORE + R, hyena: BEFORE + R + 1}  # and their numbers of tokens: a grid wants padding


def block(mixer, registers, grn, layer_scale, rate):
    made = ViT5ResidualBlock(
        mixer(registers),
        NORM,
        partial(MLP, C, "gelu", nn.Identity),
        NORM,
        C,
        1e-4 if layer_scale else 0,
        rate,
        partial(RegisterPooling, R) if registers else None,
        R,
        BEFORE,
        partial(GlobalResponseNorm, C) if grn else None,
    ).double()
    for p in made.parameters():
        nn.init.normal_(p, std=0.5)
    return made


def rms(x, gain):
    return x / ((x * x).mean(-1, keepdim=True) + 1e-6).sqrt() * gain


def silu(x):
    return x / (1 + torch.exp(-x))


def gelu(x):
    return x * (1 + torch.erf(x / 2**0.5)) / 2


def competed(x, p):
    size = (x * x).sum(1, keepdim=True).sqrt()
    return p["grn.gamma"] * x * size / (size.mean(-1, keepdim=True) + 1e-6) + p["grn.beta"] + x


def turned(x):
    """Turn the pairs of (samples, heads, tokens, 8) as complex numbers, token by token."""
    places = [(y, x, 1e4) for y in range(DOWN) for x in range(ACROSS)] + [(0, 0, 1.0)]
    places += [(y, x, 100.0) for y in range(2) for x in range(2)]
    angles = [[y, y * base**-0.5, x, x * base**-0.5] for y, x, base in places]
    turns = torch.polar(torch.ones(len(places), 4).double(), torch.tensor(angles, dtype=torch.float64))
    y = torch.complex(x[..., :4], x[..., 4:]) * turns
    return torch.cat([y.real, y.imag], dim=-1)


def attended(x, _, p):
    q, k, v = (x @ w.T + b for w, b in zip(p["qkv.weight"].chunk(3), p["qkv.bias"].chunk(3), strict=True))
    q, k, v = (torch.stack(signal.split(C // HEADS, dim=-1), 1) for signal in (q, k, v))
    q, k = turned(rms(q, p["q_norm.weight"])), turned(rms(k, p["k_norm.weight"]))
    weights = torch.exp(q @ k.mT / (C // HEADS) ** 0.5)
    heard = weights / weights.sum(-1, keepdim=True) @ v
    return torch.cat(heard.unbind(1), dim=-1) @ p["proj.weight"].T + p["proj.bias"]


def kernel(c, p, high, wide):
    """Say the taps of each sample: a sine of the position, a sine of that, bent by the condition, a linear map."""
    down, across = (torch.arange(1 - n, n, dtype=torch.float64) / 2 for n in (high, wide))
    places = torch.cartesian_prod(down, across).view(1, 2 * high - 1, 2 * wide - 1, 2)
    h = torch.sin(places @ p["positional_embedding.linear.weight"].T + p["positional_embedding.linear.bias"])
    h = torch.sin(h @ p["hidden_linears.0.weight"].T + p["hidden_linears.0.bias"])
    if c is not None:
        film = gelu(c @ p["film_generator.mlp.0.weight"].T + p["film_generator.mlp.0.bias"])
        film = film @ p["film_generator.mlp.2.weight"].T + p["film_generator.mlp.2.bias"]
        h = film[:, None, None, :5] * h + film[:, None, None, 5:]
    return h @ p["out_linear.weight"].T + p["out_linear.bias"]


def convolved(x, c, p):
    """Sum over all pairs of places, by index."""
    high, wide = x.shape[1:3]
    taps = kernel(c, under(p, "kernel."), high, wide).expand(len(x), -1, -1, -1)
    rows, columns = (torch.arange(n)[:, None] - torch.arange(n) + n - 1 for n in (high, wide))
    table = taps[:, rows[:, :, None, None], columns]  # sample, row, row heard, column, column heard, channel
    return torch.einsum("bijklc,bjlc->bikc", table, x) + p["shortcut"] * x


def gated(x, c, p):
    x = x.reshape(len(x), -1, ACROSS, C)
    signals, p = x @ p["qkv_proj.weight"].T, {**under(p, "mixer."), "out": p["out_proj.weight"]}
    around = pad(signals, (0, 0, 1, 1, 1, 1))
    near = [[around[:, i : i + x.shape[1], j : j + ACROSS] for j in range(3)] for i in range(3)]
    short = sum(near[i][j] * p["short_conv.weight"][:, 0, i, j] for i, j in product(range(3), range(3)))
    q, k, v = (short + p["short_conv.bias"]).split(C, dim=-1)
    z = rms(rms(q, p["q_norm.weight"]) * silu(k), p["pixelhyena_norm.weight"])
    return (convolved(z, c, under(p, "global_conv.")) * silu(v) @ p["out"].T).reshape(len(x), -1, C)


def under(p, prefix):
    return {name.removeprefix(prefix): value for name, value in p.items() if name.startswith(prefix)}


def transcribed(x, p, mixer, registers, grn, layer_scale, coins):
    n = rms(x, p["input_norm.weight"])
    c = None
    if "register_pooling.logits" in p:
        weights = torch.exp(p["register_pooling.logits"])
        c = sum(weights[r] * n[:, BEFORE + r] for r in range(R)) / weights.sum()
    inside = under(p, "sequence_mixer.")
    m = attended(n, c, inside) if mixer is attention else gated(n, c, under(inside, "inner_mixer."))
    m = competed(m, p) if grn else m
    x = x + coins[0] * (m * p["ls_attn.gamma"] if layer_scale else m)
    m = gelu(rms(x, p["mlp_norm.weight"]) @ p["mlp.layer1.weight"].T) @ p["mlp.layer2.weight"].T
    return x + coins[1] * (m * p["ls_mlp.gamma"] if layer_scale else m)


@pytest.mark.parametrize("dropping", [False, True], ids=["kept", "dropped"])
@pytest.mark.parametrize("layer_scale", [False, True], ids=["unscaled", "scaled"])
@pytest.mark.parametrize("grn", [False, True], ids=["alone", "competing"])
@pytest.mark.parametrize("registers", [False, True], ids=["unconditioned", "registers"])
@pytest.mark.parametrize("mixer", MIXERS, ids=lambda mixer: mixer.__name__)
def test_values_and_gradients_in_float64(mixer, registers, grn, layer_scale, dropping):
    made = block(mixer, registers, grn, layer_scale, 0.5 if dropping else 0.0)
    x = torch.randn(6, MIXERS[mixer], C, dtype=torch.float64, requires_grad=True)
    coins = [1.0, 1.0]
    if dropping:
        made.drop_path.generator, twin = (torch.Generator().manual_seed(3) for _ in range(2))
        coins = [drop_path(torch.ones(6, 1, 1).double(), 0.5, generator=twin) for _ in range(2)]
        assert len({tuple(coin.flatten().tolist()) for coin in coins}) == 2  # two masks, neither of them trivial
    ours = made(x)
    theirs = transcribed(x, dict(made.named_parameters()), mixer, registers, grn, layer_scale, coins)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    leaves, g = {"x": x, **dict(made.named_parameters())}, torch.randn(ours.shape, dtype=torch.float64)
    assert ("register_pooling.logits" in leaves) == (registers and mixer is hyena)  # attention reads no condition
    found, expected = (torch.autograd.grad(y, leaves.values(), g) for y in (ours, theirs))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)

"""Every mixer in every block, on signals of one to three axes, with and without a condition.

A new block joins by one line of ``BLOCKS``, a new mixer by one of ``MIXERS``.
"""

from functools import partial
from itertools import product

import pytest
import torch
from torch import nn

from residual_edu import (
    MLP,
    AdaLNZeroResidualBlock,
    Attention,
    CKConv,
    ExponentialModulation,
    Hyena,
    KernelFiLMGenerator,
    LayerNorm,
    Mamba,
    MambaLayer,
    QKVConditionMixer,
    QKVSequenceMixer,
    RegisterPooling,
    ResidualBlock,
    RMSNorm,
    SIRENKernel,
    ViT5ResidualBlock,
)

C = 12
SPACES = {1: (6,), 2: (3, 4), 3: (2, 3, 2)}


def attention(axes, listening):
    return partial(Attention, C, num_heads=1, apply_qk_norm=True, use_rope=True)


def ckconv(axes, listening):
    film = partial(KernelFiLMGenerator, C, kernel_hidden_dim=4, num_film_layers=2, film_hidden_dim=5)
    kernel = partial(SIRENKernel, C, axes, 4, num_layers=3, embedding_dim=4, omega_0=1.0, L_cache=4, use_bias=True)
    fading = partial(ExponentialModulation, axes, C)
    return partial(CKConv, axes, C, partial(kernel, film_cfg=film if listening else None), fading, "double", "zero")


def hyena(axes, listening):
    short = partial(getattr(nn, f"Conv{axes}d"), 3 * C, 3 * C, 3, padding=1, groups=3 * C)
    return partial(Hyena, ckconv(axes, listening), short, nn.SiLU, partial(RMSNorm, C), partial(RMSNorm, C))


def mamba(axes, listening):
    return partial(Mamba, partial(MambaLayer, C, d_state=4, d_conv=3, headdim=6, chunk_size=4), bidirectional=True)


MIXERS = {Attention: attention, CKConv: ckconv, Hyena: hyena, Mamba: mamba}
LISTENING = [CKConv, Hyena]  # those that have a use for conditioning=
BARE = [CKConv, Mamba]  # those that take one signal, so that they may stand in a block without QKVSequenceMixer
NORM, FEED_FORWARD, LEFT_OUT = partial(LayerNorm, C), partial(MLP, C, "swiglu", nn.Identity), nn.Identity


def residual_block(mixer_cfg, conditioned):
    cross = partial(QKVConditionMixer, C, partial(Attention, C, 2, apply_qk_norm=False, use_rope=False))
    listener, norm = (cross, NORM) if conditioned else (LEFT_OUT, LEFT_OUT)
    return ResidualBlock(mixer_cfg, NORM, listener, norm, FEED_FORWARD, NORM, LEFT_OUT)


def adaln_zero_block(mixer_cfg, conditioned):
    return AdaLNZeroResidualBlock(mixer_cfg, NORM, FEED_FORWARD, NORM, NORM, LEFT_OUT, C)


def vit5_block(mixer_cfg, conditioned):
    pooling = partial(RegisterPooling, 2) if conditioned else None
    return ViT5ResidualBlock(mixer_cfg, NORM, FEED_FORWARD, NORM, C, 0.1, 0.0, pooling, num_registers=2)


BLOCKS = {  # how to build it, the numbers of axes it takes, and whether its mixer can hear a condition
    ResidualBlock: (residual_block, (1, 2, 3), False),
    AdaLNZeroResidualBlock: (adaln_zero_block, (1, 2, 3), True),
    ViT5ResidualBlock: (vit5_block, (1,), True),
}
CASES = [
    pytest.param(
        block, mixer, bare, axes, conditioned, id=f"{block.__name__}-{mixer.__name__}-{bare}-{axes}d-{conditioned}"
    )
    for block, mixer, bare, conditioned in product(BLOCKS, MIXERS, *[(False, True)] * 2)
    for axes in BLOCKS[block][1]
    if mixer in BARE or not bare
]


def wrapped(mixer_cfg):
    return partial(QKVSequenceMixer, C, mixer_cfg)


def signals(axes):
    x = torch.randn(2, *SPACES[axes], C, dtype=torch.float64, requires_grad=True)
    return x, torch.randn(2, 3, C, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("block, mixer, bare, axes, conditioned", CASES)
def test_forward_and_backward_reach_everything(block, mixer, bare, axes, conditioned):
    make, _, hears = BLOCKS[block]
    mixer_cfg = MIXERS[mixer](axes, listening=hears and conditioned)
    built, (x, condition) = make(mixer_cfg if bare else wrapped(mixer_cfg), conditioned).double(), signals(axes)
    for p in built.parameters():  # off its start, which opens the gates that begin at zero
        p.data += 0.2 * torch.randn_like(p)
    asked = conditioned or block is AdaLNZeroResidualBlock
    y = built(x, condition if asked else None)
    assert y.shape == x.shape and y.dtype == x.dtype and y.isfinite().all()
    (y * torch.randn_like(y)).sum().backward()
    unheard = ["register_pooling.logits"] if mixer not in LISTENING else []  # pooled for a mixer without a use for it
    reached = [p.grad is not None and p.grad.isfinite().all() and p.grad.any() for p in built.parameters()]
    names = [name for name, _ in built.named_parameters()]
    assert [name for name, fine in zip(names, reached, strict=True) if not fine and name not in unheard] == []
    assert x.grad.flatten(1).any(1).all()
    if asked and block is not ViT5ResidualBlock:  # which takes its condition from its registers
        assert condition.grad.flatten(1).any(1).all()


@pytest.mark.parametrize("mixer", MIXERS)
def test_conditioning_moves_the_mixers_that_listen_and_no_other(mixer):
    built, (x, _) = wrapped(MIXERS[mixer](2, listening=True))().double(), signals(2)
    for p in built.parameters():
        nn.init.normal_(p, std=0.5)
    one, other = (built(x, conditioning=torch.randn(2, C).double()) for _ in range(2))
    assert one.equal(other) is (mixer not in LISTENING)

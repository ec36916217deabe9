"""Every mixer in every block, on signals of one to three axes, with and without a condition.

A new block joins by one line of ``BLOCKS``, a new mixer by one of ``MIXERS``.
"""

from functools import partial
from itertools import product

import pytest
import torch
from torch import nn

import residual_edu as library
from tests.library.interop.models import OFF, C, c, cross, hyena, mamba, qkv

KERNEL = partial(library.SIRENKernel, C, mlp_hidden_dim=4, num_layers=2, embedding_dim=4, omega_0=1.0, L_cache=4)
FILM, POOLING = partial(library.KernelFiLMGenerator, C, 4, 1), partial(library.RegisterPooling, 2)


def ckconv(axes, film):
    kernel = partial(KERNEL, data_dim=axes, use_bias=True, film_cfg=FILM if film else None)
    return partial(library.CKConv, axes, C, kernel, partial(library.ExponentialModulation, axes, C), "double", "zero")


MIXERS = {  # for so many axes, with FiLM if a condition is to be heard
    "Attention": lambda axes, film: partial(qkv, partial(library.Attention, C, 1, True, axes < 3)),
    "CKConv": lambda axes, film: partial(qkv, ckconv(axes, film)),
    "CKConv alone": ckconv,
    "Hyena": hyena,
    "Mamba": lambda axes, film: partial(qkv, mamba),
    "Mamba alone": lambda axes, film: mamba,
}
LISTENING = ["CKConv", "CKConv alone", "Hyena"]


def residual(mixer, conditioned):
    pair = (cross, c.NORM) if conditioned else (OFF, OFF)
    return library.ResidualBlock(mixer, c.NORM, *pair, c.DENSE, c.NORM, OFF)


def adaln_zero(mixer, conditioned):
    return library.AdaLNZeroResidualBlock(mixer, c.NORM, c.DENSE, c.NORM, c.NORM, OFF, C)


def vit5(mixer, conditioned):
    pooling = POOLING if conditioned else None
    return library.ViT5ResidualBlock(mixer, c.NORM, c.DENSE, c.NORM, C, 0.1, 0.0, pooling, num_registers=2)


BLOCKS = {residual: (1, 2, 3), adaln_zero: (1, 2, 3), vit5: (1,)}  # and the numbers of axes it takes


@pytest.mark.parametrize("block, axes", [(block, axes) for block, several in BLOCKS.items() for axes in several])
@pytest.mark.parametrize("mixer, conditioned", list(product(MIXERS, (False, True))))
def test_forward_and_backward_reach_everything(block, axes, mixer, conditioned):
    built = block(MIXERS[mixer](axes, film=conditioned and block is not residual), conditioned).double()
    for p in built.parameters():  # off its start, which opens the gates that begin at zero
        p.data += 0.2 * torch.randn_like(p)
    x, condition = (torch.randn(2, *space, C).double().requires_grad_() for space in ([6, 4, 3][:axes], [3]))
    y = built(x, condition if conditioned or block is adaln_zero else None)
    assert y.shape == x.shape and y.dtype == x.dtype and y.isfinite().all()
    (y * torch.randn_like(y)).sum().backward()
    heard = block is adaln_zero or conditioned and block is residual  # ViT-5's condition comes from its registers
    reached = [*built.named_parameters(), ("x", x), *([("condition", condition)] if heard else [])]
    assert [name for name, p in reached if p.grad is None or not p.grad.isfinite().all() or not p.grad.any()] == []


@pytest.mark.parametrize("mixer", MIXERS)
def test_conditioning_moves_the_mixers_that_listen_and_no_other(mixer):
    built, x = MIXERS[mixer](2, film=True)().double(), torch.randn(2, 3, 4, C).double()
    for p in built.parameters():
        nn.init.normal_(p, std=0.5)
    one, other = (built(x, conditioning=torch.randn(2, C).double()) for _ in range(2))
    assert one.equal(other) is (mixer not in LISTENING)

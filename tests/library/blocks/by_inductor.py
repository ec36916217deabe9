"""Compile one block by Inductor and compare it with itself; a script of its own, to run the code as users have it.

The test run's shape hook is no part of that, and one process has one cache of compiled code.
"""

import sys
from functools import partial

import torch
from torch import nn

from residual_edu import (
    MLP,
    AdaLNZeroResidualBlock,
    Attention,
    BlockConfig,
    CKConv,
    ConfigurableBlock,
    GlobalResponseNorm,
    Hyena,
    KernelFiLMGenerator,
    LayerNorm,
    QKVSequenceMixer,
    RegisterPooling,
    ResidualBlock,
    RMSNorm,
    SimpleFeedForward,
    SIRENKernel,
    ViT5Attention,
    ViT5HyenaAdapter,
    ViT5ResidualBlock,
    attention_mask,
)

C, R, TOKENS = 8, 2, 12  # 3 by 3 patches, a CLS token, two registers
NORM = partial(RMSNorm, C)


def residual():
    mixer = partial(QKVSequenceMixer, C, partial(Attention, C, 2, True, False))
    feed_forward = partial(MLP, C, "gelu", nn.Identity)
    off = nn.Identity
    block = ResidualBlock(mixer, partial(LayerNorm, C), off, off, feed_forward, partial(LayerNorm, C), off)
    return block, (torch.randn(2, 5, C), None)


def adaln_zero():
    mixer, feed_forward = (
        partial(QKVSequenceMixer, C, partial(Attention, C, 2, True, False)),
        partial(SimpleFeedForward, C, 2 * C),
    )
    norm = partial(LayerNorm, C)
    block = AdaLNZeroResidualBlock(mixer, norm, feed_forward, norm, norm, nn.Identity, C)
    return block, (torch.randn(2, 5, C), torch.randn(2, C))


def vit5(mixer):
    competing = partial(GlobalResponseNorm, C)
    pooling, feed_forward = partial(RegisterPooling, R), partial(MLP, C, "gelu", nn.Identity)
    return ViT5ResidualBlock(mixer, NORM, feed_forward, NORM, C, 0.1, 0.0, pooling, R, 10, competing)


def vit5_attention():
    mixer = partial(ViT5Attention, C, 2, 3, 3, R, qk_norm=partial(RMSNorm, 4))
    return vit5(mixer), (torch.randn(2, TOKENS, C),)


def vit5_hyena():
    film = partial(KernelFiLMGenerator, C, kernel_hidden_dim=5, num_film_layers=1, film_hidden_dim=6)
    kernel = partial(SIRENKernel, C, 2, 5, 2, 4, omega_0=1.0, L_cache=3, use_bias=True, film_cfg=film)
    conv = partial(CKConv, 2, C, kernel, nn.Identity, "double", "zero")
    short = partial(nn.Conv2d, 3 * C, 3 * C, 3, padding=1, groups=3 * C)
    mixer = partial(QKVSequenceMixer, C, partial(Hyena, conv, short, nn.SiLU, NORM, NORM))
    return vit5(partial(ViT5HyenaAdapter, mixer, 3)), (torch.randn(2, TOKENS, C),)


def configurable():
    sizes = {"d_model": 16, "n_heads": 4, "n_kv_heads": 2, "d_ff": 12, "max_seq_len": 16}
    block = ConfigurableBlock(BlockConfig(attention="gqa", position="rope", **sizes))
    return block, (torch.randn(2, 5, 16), attention_mask(5, 5, causal=True))


BLOCKS = {f.__name__: f for f in (residual, adaln_zero, vit5_attention, vit5_hyena, configurable)}


def values(model, parameters, x, *rest):
    """Return the output, and the gradients of ``x`` and of the parameters that have one."""
    x = x.clone().requires_grad_()
    y = model(x, *rest)
    y = y[0] if isinstance(y, tuple) else y
    found = torch.autograd.grad(y.square().sum(), [x, *parameters], allow_unused=True)
    return [y.detach(), *(each for each in found if each is not None)]


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    block, inputs = BLOCKS[sys.argv[1]]()
    parameters = list(block.parameters())
    for each in parameters:
        nn.init.normal_(each, std=0.5)
    ours = values(torch.compile(block, fullgraph=True, backend="inductor"), parameters, *inputs)
    for a, b in zip(ours, values(block, parameters, *inputs), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
    print(f"{len(ours)} tensors agree")

"""The same numbers by another way: compiled, in 16 bits, with less memory, copied, kept in a file, exported."""

import copy
import pickle
from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from residual_edu import (
    MLP,
    CKConv,
    DropPath,
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
)

pytestmark = pytest.mark.usefixtures("as_installed")

C, R, TOKENS = 8, 2, 12  # 3 by 3 patches, a CLS token, two registers
NORM = partial(RMSNorm, C)


def attention():
    return ViT5Attention(C, 2, 3, 3, R, qk_norm=partial(RMSNorm, 4))


def hyena():
    film = partial(KernelFiLMGenerator, C, kernel_hidden_dim=5, num_film_layers=1, film_hidden_dim=6)
    kernel = partial(SIRENKernel, C, 2, 5, 2, 4, omega_0=1.0, L_cache=3, use_bias=True, film_cfg=film)
    conv = partial(CKConv, 2, C, kernel, nn.Identity, "double", "zero")
    short = partial(nn.Conv2d, 3 * C, 3 * C, 3, padding=1, groups=3 * C)
    return ViT5HyenaAdapter(partial(QKVSequenceMixer, C, partial(Hyena, conv, short, nn.SiLU, NORM, NORM)), 3)


@pytest.fixture(params=[attention, hyena], ids=lambda mixer: mixer.__name__)
def made(request):
    feed_forward, competing = partial(MLP, C, "gelu", nn.Identity), partial(GlobalResponseNorm, C)
    pooling = partial(RegisterPooling, R)
    block = ViT5ResidualBlock(request.param, NORM, feed_forward, NORM, C, 0.1, 0.0, pooling, R, 10, competing)
    for p in block.parameters():
        nn.init.normal_(p, std=0.5)
    return block


def run(model, x):
    """Return the values, the gradient of x and those of the parameters that have one."""
    x = x.clone().requires_grad_()
    y = model(x)
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(y.float().square().sum(), [x, *parameters], allow_unused=True)
    return [y.detach(), *(g for g in gradients if g is not None)]


def same(found, expected, **tolerance):
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, **tolerance)


def test_compiled_into_one_graph(made, compiled):
    x = torch.randn(2, TOKENS, C)
    same(run(compiled(made), x), run(made, x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("way", ["checkpoint", "deepcopy", "pickle"])
def test_the_very_same_numbers(made, way):
    other = {
        "checkpoint": lambda: Checkpointed(made),
        "deepcopy": lambda: copy.deepcopy(made),
        "pickle": lambda: pickle.loads(pickle.dumps(made)),
    }[way]()
    x = torch.randn(2, TOKENS, C)
    same(run(other, x), run(made, x), rtol=0, atol=0)


class Checkpointed(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        return checkpoint(self.block, x, use_reentrant=False)


def test_a_checkpointed_block_drops_the_same_samples_twice(made):
    made.drop_path = DropPath(0.5)
    x, found = torch.randn(64, TOKENS, C), []
    for way in (Checkpointed(made), made):
        torch.manual_seed(3)
        found.append(run(way, x))
    same(*found, rtol=0, atol=0)


def test_autocast_to_16_bits(made):
    x = torch.randn(2, TOKENS, C)
    with torch.autocast("cpu", torch.bfloat16):
        found = run(made, x)
    for a, b in zip(found, run(made, x), strict=True):
        assert a.dtype == torch.float32 and (a - b).norm() < 0.08 * b.norm()


def test_exported(made):
    x = torch.randn(3, TOKENS, C)
    torch.testing.assert_close(torch.export.export(made.eval(), (x,)).module()(x), made(x), rtol=1e-5, atol=1e-5)

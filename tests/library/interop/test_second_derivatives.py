"""Second derivatives and forward ones, which torch's fused attention has not: by the formula, in float64."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call, jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

from residual_edu import MLP, Attention, LayerNorm, QKVSequenceMixer, ResidualBlock, RMSNorm, long_convolution
from residual_edu.mixers.real_fft import real_fft

from .models import MODELS
from .tools import replaced, tensors

pytestmark = [
    pytest.mark.usefixtures("all_as_installed"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated"),
]  # torch's own use, in forward mode


def x(*shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def twice(function, *inputs):
    """Gradients of first and second order, backward, and of first order, forward, against differences."""
    assert gradgradcheck(function, inputs)
    return gradcheck(function, inputs, check_forward_ad=True, check_backward_ad=True)


@pytest.mark.parametrize(("normed", "rope", "causal"), [(False, False, True), (True, True, False)])
def test_of_attention(normed, rope, causal):
    mixer = Attention(4, 2, normed, rope, causal, fused=False).double()
    assert twice(lambda *qkv: mixer(*qkv), *(x(1, 3, 4) for _ in range(3)))


@pytest.mark.parametrize("causal", [False, True])
def test_its_formula_is_its_kernel(causal):
    qkv = [x(2, 5, 4) for _ in range(3)]
    formula, kernel = (Attention(4, 2, True, True, causal, fused=fused)(*qkv) for fused in (False, True))
    torch.testing.assert_close(formula, kernel, rtol=1e-12, atol=1e-12)


def test_its_formula_drops_weights_as_well():
    mixer, qkv = Attention(4, 2, False, False, False, 0.5, fused=False), [x(64, 5, 4) for _ in range(3)]
    assert not torch.allclose(mixer(*qkv), mixer.eval()(*qkv))


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("norm", [LayerNorm, RMSNorm])
def test_of_norms(norm, fused):
    layer = norm(4, fused=fused).double()
    assert twice(lambda x: layer(x), x(2, 3, 4))


@pytest.mark.parametrize("space", [(4,), (3, 2)])
@pytest.mark.parametrize("padding", ["zero", "circular"])
def test_of_a_long_convolution(padding, space):
    assert twice(lambda x, k: long_convolution(x, k, padding), x(1, *space, 2), x(1, *[n - 1 for n in space], 2))


@pytest.mark.parametrize("n", [4, 5, 7])
def test_of_the_real_transform(n):
    assert twice(lambda x: real_fft(x, [n]), x(2, 4))


def block():
    mixer = partial(QKVSequenceMixer, 4, partial(Attention, 4, 2, True, True, fused=False))
    norm, off = partial(LayerNorm, 4, fused=False), nn.Identity
    return ResidualBlock(mixer, norm, off, off, partial(MLP, 4, "gelu", off), norm, off).double()


def test_of_a_block_and_its_parameters():
    model, signal = block(), x(1, 3, 4)
    assert twice(lambda x: model(x, None), signal)
    state = dict(model.named_parameters())
    tangents = {key: torch.randn_like(each) for key, each in state.items()}
    value, change = jvp(lambda state: functional_call(model, state, (signal, None)), (state,), (tangents,))
    step = {key: each + 1e-6 * tangents[key] for key, each in state.items()}
    torch.testing.assert_close(
        change, (functional_call(model, step, (signal, None)) - value) / 1e-6, rtol=1e-4, atol=1e-4
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MODELS if tensors(MODELS[name].call)])
def test_of_every_model_with_the_kernel_off(name):
    """``sdpa_kernel(MATH)`` gives second derivatives through any attention: a model need not be built for it."""
    model = MODELS[name].made()
    call = replaced(MODELS[name].inputs(), lambda each: each.requires_grad_() if each.is_floating_point() else each)
    inputs = [each for each in tensors(call) if each.requires_grad] + list(model.parameters())
    with sdpa_kernel(SDPBackend.MATH):
        outputs = [each.square().sum() for each in tensors(model(**call)) if each.requires_grad]
        if outputs:
            first = torch.autograd.grad(sum(outputs), inputs, create_graph=True, allow_unused=True)
            second = sum(each.square().sum() for each in first if each is not None)
            found = torch.autograd.grad(second, inputs, allow_unused=True) if second.requires_grad else ()
            assert all(each is None or each.isfinite().all() for each in found)

"""The cost of a piece: torch's count of its products, and one operation for each number of each pointwise step."""

from functools import partial
from math import log2, prod

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import residual_edu as library
from residual_edu.mixers.long_convolution import next_fast_len

pytestmark = pytest.mark.usefixtures("all_as_installed")
C, OFF, NORM = 4, nn.Identity, partial(library.RMSNorm, 4)
ACTIVATIONS = {"relu": 1, "gelu": 1, "gelu_tanh": 1, "silu": 1, "glu": 2, "swiglu": 2}  # 1 more for a gated number
CONVOLUTIONS = [{}, {"dilation": 3}, {"groups": 2, "bias": False}, {"stride": 2}, {"kernel_size": 4}]
FILM = partial(library.KernelFiLMGenerator, 6, 5, 2)
SHORT = {1: nn.Conv1d, 2: nn.Conv2d}


class Gate(nn.Module):
    """A mixer of three signals that says what it costs."""

    def forward(self, query, key, value, *, conditioning=None):
        return query * key + value

    def flop_count(self, shape, inference=False):
        return 1 if inference else 1000


def products(module, *given):
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:  # it counts no other attention
        module(*given)
    return counter.get_total_flops()


def x(*space, channels=C):
    return torch.randn(1, *space, channels)


def kernel(axes, film=False):
    return partial(library.SIRENKernel, C, axes, 5, 3, 4, 2.0, 8, True, film_cfg=FILM if film else None)


def conv(axes, film=False, causal=False):
    return partial(library.CKConv, axes, C, kernel(axes, film), OFF, "double", "zero", causal)


def generated(space, film=False):
    """Three layers of sines, of widths 4, 5 and 5; with FiLM a scale and a shift in two layers, and one GELU."""
    taps = prod(2 * length - 1 for length in space)
    return taps * (4 + 5 + 5) + (taps * 2 * 2 * 5 + 64 if film else 0)


def convolved(space, transforms=3):
    """Fourier transforms, a product of complex numbers, and the shortcut."""
    sizes = [next_fast_len(2 * length - 1) for length in space]
    return int(transforms * 5 * C * prod(sizes) * sum(map(log2, sizes))) + 6 * C * prod(sizes) + C * prod(space)


def saved(module, space):
    """What need not be done again at inference: the kernel without a condition, and its transform."""
    return products(module, list(space)) + generated(space) + convolved(space) - convolved(space, 2)


def parts():
    for way in CONVOLUTIONS:
        made = library.CausalConv1D(**({"in_channels": C, "out_channels": 6, "kernel_size": 3} | way))
        for length in (9, 10):
            yield made, [torch.randn(1, C, length)], length, 0
    for shape in ((2, 3), 6):
        for activation, numbers in ACTIVATIONS.items():
            yield library.MLP(C, activation, OFF, expansion_factor=1.75), [x(2, 3)], shape, 7 * 6 * numbers
        for norm, width in ((library.RMSNorm(5), 5), (library.PerHeadRMSNorm(3, 4), 12)):
            yield norm, [x(2, 3, channels=width)], shape, 3 * width * 6  # square, divide, gain
        yield library.GlobalResponseNorm(C), [x(2, 3)], shape, 6 * C * 6


def attention():
    for space in ((7,), (3, 4)):
        for qk_norm, rope in ((False, False), (True, False), (True, True)):
            numbers = 2 * prod(space) * 24  # in queries and keys
            made = library.Attention(24, 2, qk_norm, rope)
            yield made, [x(*space, channels=24)] * 3, space, 3 * numbers * (qk_norm + rope)
    plain = partial(library.Attention, 12, 2, apply_qk_norm=False, use_rope=False)
    for space in ((6,), (2, 3)):
        yield library.QKVSequenceMixer(12, plain), [x(*space, channels=12)], space, 0
        yield library.QKVSequenceMixer(12, Gate), [x(*space, channels=12)], space, 1000, 999
        made = library.QKVConditionMixer(12, plain)
        yield made, [x(*space, channels=12), x(1, channels=12)], space, 0
        made.flop_count = partial(made.flop_count, condition_shape=(2, 3))
        yield made, [x(*space, channels=12), x(2, 3, channels=12)], space, 0


def convolutions():
    yield library.KernelFiLMGenerator(4, 3, 2, film_hidden_dim=5), [torch.randn(1, 4)], 1000, 5
    for space, film in (((5,), False), ((5,), True), ((3, 4), False), ((3, 4), True)):
        made, given = kernel(len(space), film)(), [list(space), torch.randn(1, 6)]
        cost = generated(space, film)
        yield made, given, space, cost, 0 if film else products(made, *given) + cost
    for space, film, causal in (((6,), True, False), ((6,), False, True), ((3, 5), False, False), ((6,), False, False)):
        made, cost = conv(len(space), film, causal)(), generated(space, film) + convolved(space)
        made.forward = partial(made.forward, conditioning=torch.randn(1, 6))
        yield made, [x(*space)], space, cost, 0 if film else saved(made.kernel, space)
    for way, axes, pointwise in (
        ({}, 1, 2 + 2),  # two products and two sigmoids for each number
        ({"gate_nonlinear_cfg": OFF, "gate_nonlinear_2_cfg": nn.Sigmoid}, 1, 2 + 1),
        ({"qk_norm_cfg": NORM, "pixelhyena_norm_cfg": NORM}, 1, 2 + 2 + 3 * 2),
        ({"qk_norm_cfg": NORM, "gate_nonlinear_cfg": OFF, "output_norm_cfg": NORM}, 1, 2 + 3 * 3),
        ({"short_conv_cfg": OFF, "global_conv_cfg": conv(1, causal=True)}, 1, 2 + 2),
        ({}, 2, 2 + 2),
    ):
        short, space = partial(SHORT[axes], 3 * C, 3 * C, 3, padding="same", groups=3 * C), (7,) * axes
        chosen = {"global_conv_cfg": conv(axes), "short_conv_cfg": short, "gate_nonlinear_cfg": nn.SiLU}
        made = library.Hyena(**(chosen | {"pixelhyena_norm_cfg": OFF, "qk_norm_cfg": None} | way))
        cost = pointwise * C * prod(space) + generated(space) + convolved(space)
        yield made, [x(*space)] * 3, space, cost, saved(made.global_conv.kernel, space)


def scans():
    layer = partial(library.MambaLayer, 6, 5, 3, headdim=4, chunk_size=4)  # 12 inner channels, whose norm costs 3 each
    for ways in (1, 2):
        for space in ((1,), (3,), (9,), (2, 5)):
            uncounted = 2 * 2 * 6 * (1 + 5) * ways if space == (1,) else 0  # one position: no sum, a product
            made = library.Mamba(layer, bidirectional=ways == 2)
            yield made, [x(*space, channels=6)], space, 3 * 12 * prod(space) * ways + uncounted


@pytest.mark.parametrize("pieces", [parts, attention, convolutions, scans])
def test_it_is_what_torch_counts_and_the_pointwise_steps(pieces):
    for module, given, shape, pointwise, *less in pieces():
        total = products(module, *given) + pointwise
        for same in (shape, shape[0]) if isinstance(shape, tuple) and len(shape) == 1 else (shape,):
            assert module.flop_count(same) == total, module
            assert module.flop_count(same, inference=True) == total - sum(less), module

import itertools
import re
from functools import partial
from math import log2, prod, sqrt

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from residual_edu import (
    CKConv,
    CKConvND,
    ExponentialModulation,
    GaussianModulation,
    InvalidInput,
    KernelFiLMGenerator,
    SIRENKernel,
    parameter_groups,
)
from residual_edu.mixers.long_convolution import next_fast_len

FILM = partial(KernelFiLMGenerator, 5, 6, 2)


def make(data_dim=1, grid_type="double", fft_padding="zero", is_causal=False, film_cfg=None, mask_cfg=nn.Identity):
    kernel = partial(SIRENKernel, 4, data_dim, 6, 3, 6, 5.0, 8, True, film_cfg=film_cfg)
    conv = CKConv(data_dim, 4, kernel, mask_cfg, grid_type, fft_padding, is_causal)
    for p in conv.kernel.parameters():
        nn.init.normal_(p)
    return conv.double()


def signal(*space, batch=2):
    return torch.randn(batch, *space, 4, dtype=torch.float64, requires_grad=True)


def slowly(conv, x, conditioning=None):
    """y_i = sum over j of k[i - j + middle] x_j + s x_i, over all pairs of positions."""
    space = x.shape[1:-1]
    lengths = [(length + 1) // 2 if single else length for length, single in zip(space, conv.single, strict=True)]
    kernel, grid = conv.kernel(lengths, conditioning)
    kernel = kernel if isinstance(conv.mask, nn.Identity) else conv.mask(grid, kernel)
    places, rows = list(itertools.product(*map(range, space))), []
    for i in places:
        total = conv.shortcut * x[(slice(None), *i)]
        for j in places:
            tap = []
            for a, length in enumerate(lengths):
                tap.append(i[a] - j[a] + length - 1)
                if conv.paddings[a] == "circular":
                    tap[a] %= space[a]
            inside = all(0 <= t < 2 * length - 1 for t, length in zip(tap, lengths, strict=True))
            if inside and not (conv.is_causal and j > i):
                total = total + kernel[(slice(None), *tap)] * x[(slice(None), *j)]
        rows.append(total)
    return torch.stack(rows, dim=1).view(x.shape)


WAYS = [
    ((6,), {}),
    ((1,), {}),
    ((6,), {"grid_type": "single"}),
    ((7,), {"grid_type": "single"}),
    ((6,), {"grid_type": None}),
    ((6,), {"is_causal": True}),
    ((7,), {"is_causal": True, "grid_type": "single"}),
    ((6,), {"grid_type": "single", "fft_padding": "circular"}),
    ((7,), {"grid_type": None, "fft_padding": "circular"}),
    ((3, 4), {}),
    ((3, 4), {"grid_type": "single", "fft_padding": "circular"}),
    ((3, 4), {"grid_type": None, "fft_padding": ["circular", "zero"]}),
    ((4, 3), {"grid_type": "single", "fft_padding": ["zero", "circular"]}),
    ((2, 3, 2), {}),
    ((2, 3, 2), {"grid_type": None, "fft_padding": ["zero", "circular", "zero"]}),
]


@pytest.mark.parametrize("space, way", WAYS)
@pytest.mark.parametrize("masked", [False, True])
def test_it_is_the_definition_values_and_gradients(space, way, masked):
    mask = partial(ExponentialModulation, len(space), 4) if masked else nn.Identity
    conv, x = make(len(space), mask_cfg=mask, **way), signal(*space)
    expected, found = slowly(conv, x), conv(x)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    weight = torch.randn_like(expected)
    want = torch.autograd.grad((expected * weight).sum(), [x, *conv.parameters()])
    found = torch.autograd.grad((found * weight).sum(), [x, *conv.parameters()])
    torch.testing.assert_close(found, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("grid_type", ["double", "single", None])
def test_causal_by_perturbation_and_by_the_triangle(grid_type):
    conv, x = make(is_causal=True, grid_type=grid_type), signal(8)
    changed = x.detach().clone()
    changed[:, 5:] += 1.0
    with torch.no_grad():
        torch.testing.assert_close(conv(changed)[:, :5], conv(x)[:, :5], rtol=0, atol=1e-12)
        assert ((conv(changed) - conv(x))[:, 5].abs() > 1e-3).all()
    jacobian = torch.autograd.functional.jacobian(lambda x: conv(x).sum((0, 2)), x.detach()).norm(dim=(1, 3))
    assert jacobian.triu(1).max() < 1e-12 and jacobian.diagonal().min() > 1e-3


@pytest.mark.parametrize("space, way", [((6,), {}), ((6,), {"is_causal": True}), ((3, 4), {})])
def test_a_condition_bends_each_sample_s_kernel(space, way):
    conv, x = make(len(space), film_cfg=FILM, **way), signal(*space, batch=3)
    condition = torch.randn(3, 5, dtype=torch.float64)
    together = conv(x, conditioning=condition)
    torch.testing.assert_close(together, slowly(conv, x, condition))
    for b in range(3):
        alone = conv(x[b : b + 1], conditioning=condition[b : b + 1])
        torch.testing.assert_close(together[b : b + 1], alone)
    assert (conv(x) - together).abs().amax((1, -1)).min() > 1e-3
    torch.testing.assert_close(conv(x, conditioning=None), slowly(conv, x))
    torch.testing.assert_close(conv(x, conditioning=condition[:1]), slowly(conv, x, condition[:1]))


def test_at_the_start_a_condition_changes_nothing():
    kernel = partial(SIRENKernel, 4, 1, 6, 3, 6, 5.0, 8, True, film_cfg=FILM)
    conv, x = CKConv(1, 4, kernel, nn.Identity, "double", "zero"), torch.randn(1, 6, 4)
    assert conv(x, conditioning=torch.randn(1, 5)).equal(conv(x))


def test_one_kernel_serves_signals_longer_and_shorter_than_its_cache():
    conv = make()
    for length in (3, 8, 20):
        x = signal(length)
        torch.testing.assert_close(conv(x), slowly(conv, x))


def test_shortcut_and_keys():
    torch.manual_seed(0)
    conv = CKConv(1, 400, partial(SIRENKernel, 400, 1, 6, 2, 6, 5.0, 8, True), nn.Identity, "double", "zero")
    assert 0.95 / sqrt(400) < conv.shortcut.abs().max() <= 1 / sqrt(400)
    masked = make(mask_cfg=partial(GaussianModulation, 1, 4))
    keys = list(masked.state_dict())
    assert keys[0] == "shortcut" and keys[-1] == "mask.std_param" and all(k.startswith("kernel.") for k in keys[1:-1])
    assert CKConvND is CKConv


def test_only_matrices_of_the_last_layer_decay():
    conv = make(mask_cfg=partial(ExponentialModulation, 1, 4))
    decayed = parameter_groups(conv, 0.1)[0]["params"]
    assert [id(p) for p in decayed] == [id(conv.kernel.out_linear.weight)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_signal_keeps_its_dtype(dtype):
    conv = make().to(dtype)
    assert conv(torch.randn(2, 6, 4, dtype=dtype)).dtype == dtype


@pytest.mark.parametrize("space, way", [((6,), {}), ((6,), {"is_causal": True}), ((3, 5), {})])
@pytest.mark.parametrize("film", [None, FILM])
def test_its_cost(space, way, film):
    conv = make(len(space), film_cfg=film, **way)
    with FlopCounterMode(display=False) as counter:
        conv(torch.randn(1, *space, 4).double(), conditioning=torch.randn(1, 5).double())
    taps = prod(2 * length - 1 for length in space)
    generated = counter.get_total_flops() + taps * 3 * 6 + (taps * 2 * 2 * 6 + 64 if film else 0)
    sizes = [next_fast_len(2 * length - 1) for length in space]
    points, positions = prod(sizes), prod(space)

    def convolving(transforms):
        return int(transforms * 5 * 4 * points * sum(map(log2, sizes))) + 6 * 4 * points + 4 * positions

    shape = space if len(space) > 1 else space[0]
    assert conv.flop_count(shape) == generated + convolving(3)
    assert conv.flop_count(shape, inference=True) == (generated + convolving(3) if film else convolving(2))


@pytest.mark.usefixtures("as_installed")
def test_it_compiles(compiled):
    conv, x = make(film_cfg=FILM, mask_cfg=partial(GaussianModulation, 1, 4)), signal(6)
    condition = torch.randn(2, 5, dtype=torch.float64)
    torch.testing.assert_close(compiled(conv)(x, conditioning=condition), conv(x, conditioning=condition))


def built(**changes):
    kernel = partial(SIRENKernel, 4, 1, 6, 3, 6, 5.0, 8, True)
    parts = {"kernel_cfg": kernel, "mask_cfg": nn.Identity, "grid_type": "double", "fft_padding": "zero"}
    return CKConv(**({"data_dim": 1, "hidden_dim": 4} | parts | changes))


SHAPE = "must be floating point of shape"
REFUSED = [
    (lambda: built(grid_type="triple"), "grid_type must be one of 'double', 'single', None, got 'triple'"),
    (lambda: built(fft_padding="causal"), "fft_padding must be one of 'zero', 'circular', got 'causal'"),
    (lambda: built(fft_padding="circular"), "grid_type must be single or None on a circle, got 'double'"),
    (lambda: built(data_dim=2, is_causal=True), "fft_padding must be ['zero'] if causal, got ['zero', 'z"),
    (lambda: built(grid_type=None, fft_padding="circular", is_causal=True), "fft_padding must be ['zero'] if"),
    (lambda: built(hidden_dim=1)(torch.zeros(2, 6, 4)), f"x {SHAPE} (batch, length, 1), got torch.float32 (2, 6, 4)"),
    (lambda: built(hidden_dim=3)(torch.zeros(2, 6, 3)), f"kernel {SHAPE} (1, taps, 3), got torch.float32 (1, 11, 4)"),
    (lambda: built()(torch.zeros(2, 6, 4).long()), f"x {SHAPE} (batch, length, 4), got torch.int64"),
    (
        lambda: make(film_cfg=FILM)(signal(6), conditioning=torch.zeros(3, 5).double()),
        f"kernel {SHAPE} (2, taps, 4), got torch.float64 (3, 11, 4)",
    ),
]


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize("call, words", REFUSED)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{re.escape(words)}"):
        call()

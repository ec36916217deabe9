from functools import partial

import pytest
import torch
from torch import nn

from residual_edu import CKConv, ExponentialModulation, KernelFiLMGenerator, SIRENKernel
from tests.library.helpers import agree, decayed

from .by_definition import by_definition

FILM = partial(KernelFiLMGenerator, 5, 6, 2)


def make(data_dim=1, grid_type="double", fft_padding="zero", is_causal=False, film_cfg=None, mask_cfg=nn.Identity):
    kernel = partial(SIRENKernel, 4, data_dim, 6, 3, 6, 5.0, 8, True, film_cfg=film_cfg)
    conv = CKConv(data_dim, 4, kernel, mask_cfg, grid_type, fft_padding, is_causal)
    for p in conv.kernel.parameters():
        nn.init.normal_(p)
    return conv.double()


def signal(*space):
    return torch.randn(2, *space, 4, dtype=torch.float64, requires_grad=True)


def slowly(conv, x, conditioning=None):
    """By the definition, with taps on either side of the middle one, or in a causal one from it on; and s x_i."""
    lengths = [(n + 1) // 2 if single else n for n, single in zip(x.shape[1:-1], conv.single, strict=True)]
    kernel, grid = conv.kernel(lengths, conditioning)
    kernel = kernel if isinstance(conv.mask, nn.Identity) else conv.mask(grid, kernel)
    kernel = kernel[:, lengths[0] - 1 :] if conv.is_causal else kernel
    return by_definition(x, kernel, conv.paddings) + conv.shortcut * x


WAYS = [
    ((6,), {}),
    ((11,), {}),  # longer than the kernel's reach
    ((6,), {"grid_type": "single"}),
    ((6,), {"is_causal": True}),
    ((7,), {"is_causal": True, "grid_type": "single"}),
    ((8,), {"is_causal": True, "grid_type": None}),
    ((6,), {"grid_type": "single", "fft_padding": "circular"}),
    ((7,), {"grid_type": None, "fft_padding": "circular"}),
    ((3, 4), {"grid_type": None, "fft_padding": ["circular", "zero"]}),
    ((4, 3), {"grid_type": "single", "fft_padding": ["zero", "circular"]}),
    ((2, 3, 2), {"grid_type": None, "fft_padding": ["zero", "circular", "zero"]}),
]


@pytest.mark.parametrize("space, way", WAYS)
@pytest.mark.parametrize("kind", ["plain", "masked", "conditioned"])
def test_it_is_the_definition_values_and_gradients(space, way, kind):
    mask = partial(ExponentialModulation, len(space), 4) if kind == "masked" else nn.Identity
    film, c = (FILM, torch.randn(2, 5).double()) if kind == "conditioned" else (None, None)
    conv, x = make(len(space), mask_cfg=mask, film_cfg=film, **way), signal(*space)
    agree(conv(x, conditioning=c), slowly(conv, x, c), [x, *conv.parameters()])


def test_the_start_the_keys_and_what_decays():
    kernel, mask = partial(SIRENKernel, 400, 1, 6, 2, 6, 5.0, 8, True), partial(ExponentialModulation, 1, 400)
    conv = CKConv(1, 400, kernel, mask, "double", "zero")
    assert 0.95 / 20 < conv.shortcut.abs().max() <= 1 / 20
    assert list(dict.fromkeys(key.split(".")[0] for key in conv.state_dict())) == ["shortcut", "kernel", "mask"]
    assert decayed(conv) == ["kernel.out_linear.weight"]


@pytest.mark.parametrize(
    ("lengths", "paddings"), [([9], "zero"), ([8], "circular"), ([4, 5, 6], ["circular", "zero", "circular"])]
)
def test_positions_end_at_1_on_a_single_grid_of_the_length_that_the_kernel_is_made_for(lengths, paddings):
    """The origin halves L_cache along single axes before it builds the kernel; here such a kernel is built by hand."""
    axes, mixed = len(lengths), isinstance(paddings, list)
    single = [padding == "circular" for padding in paddings] if mixed else [True] * axes
    kernel = partial(SIRENKernel, 3, axes, 4, 2, 5, 2.0, lengths, True)
    torch.manual_seed(3)
    conv = CKConv(axes, 3, kernel, nn.Identity, None if mixed else "single", paddings).double()
    halves = [(length + 1) // 2 if one else length for length, one in zip(lengths, single, strict=True)]
    taps, grid = conv.kernel(halves)
    for axis, half in enumerate(halves):
        along = grid[0].movedim(axis, 0)[(slice(None), *[0] * (axes - 1), axis)]
        torch.testing.assert_close(along, torch.linspace(-1, 1, 2 * half - 1, dtype=along.dtype))
    torch.manual_seed(3)
    origin = SIRENKernel(3, axes, 4, 2, 5, 2.0, halves, True).double()
    torch.testing.assert_close(taps, origin(halves)[0], rtol=1e-6, atol=1e-7)
    before = {key: value.clone() for key, value in origin.state_dict().items()}
    conv = CKConv(axes, 3, origin, nn.Identity, None if mixed else "single", paddings)  # which is built, and stays
    assert conv.kernel.positional_embedding.L_cache == halves
    assert all(before[key].equal(value) for key, value in conv.kernel.state_dict().items())

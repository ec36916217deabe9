"""Where the positions of a kernel's taps end: at 1 on a grid of the length that it is made for."""

from functools import partial

import pytest
import torch
from torch import nn

from residual_edu import CKConv, SIRENKernel


@pytest.mark.parametrize(
    ("lengths", "paddings"),
    [
        ([8], "zero"),
        ([9], "zero"),
        ([8], "circular"),
        ([9], ["circular"]),
        ([6, 7], "zero"),
        ([6, 7], ["zero", "circular"]),
        ([4, 5, 6], ["circular", "zero", "circular"]),
    ],
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


def test_a_built_kernel_keeps_its_positions():
    kernel = SIRENKernel(3, 1, 4, 2, 5, 2.0, 9, True)
    before = kernel.out_linear.weight.clone()
    CKConv(1, 3, kernel, nn.Identity, "single", "zero")
    assert kernel.positional_embedding.L_cache == [9] and kernel.out_linear.weight.equal(before)

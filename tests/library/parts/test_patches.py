import itertools

import pytest
import torch
from torch import nn

from residual_edu import Patchify, Unpatchify
from tests.library.helpers import agree

SPACES = [(8,), (7, 8), (4, 5, 6)]


def places(lengths):
    return itertools.product(*map(range, lengths))


def cut(x, weight, bias, stride):
    """The definition: each output is a weighted sum over one patch, position by position."""
    size, axes = weight.shape[2], x.ndim - 2
    grid = [(length - size) // stride + 1 for length in x.shape[1:-1]]
    y = bias.expand(len(x), *grid, -1).clone()
    for place, offset in itertools.product(places(grid), places([size] * axes)):
        at = tuple(stride * i + k for i, k in zip(place, offset, strict=True))
        y[(slice(None), *place)] = y[(slice(None), *place)] + x[(slice(None), *at)] @ weight[(..., *offset)].T
    return y


def put_back(x, weight, bias, stride):
    """The definition: the transpose of ``cut``, which sums where patches overlap."""
    space = [(length - 1) * stride + weight.shape[2] for length in x.shape[1:-1]]
    signal = torch.zeros(len(x), *space, weight.shape[1], dtype=x.dtype, requires_grad=True)
    pieces = cut(signal, weight, torch.zeros(weight.shape[0], dtype=x.dtype), stride)
    return torch.autograd.grad(pieces, signal, x, create_graph=True)[0] + bias


@pytest.mark.parametrize("stride", [None, 1, 3])
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("kind", [Patchify, Unpatchify])
def test_values_and_gradients_in_float64(kind, space, stride):
    made = kind(2, 3, len(space), 2, stride).double()
    space = space if kind is Patchify else (3, 2, 2)[: len(space)]
    layer, formula = (made.conv, cut) if kind is Patchify else (made.deconv, put_back)
    x = torch.randn(2, *space, 2, dtype=torch.float64, requires_grad=True)
    agree(made(x), formula(x, layer.weight, layer.bias, stride or 2), [x, *made.parameters()], 1e-12)


def test_names_sizes_and_no_bias():
    made, back = Patchify(2, 3, 2, 4, stride=2, bias=False), Unpatchify(2, 3, 1, 4)
    assert list(made.state_dict()) == ["conv.weight"] and list(back.state_dict()) == ["deconv.weight", "deconv.bias"]
    assert (made.data_dim, made.patch_size, made.stride, back.stride) == (2, 4, 2, 4)
    assert isinstance(made.conv, nn.Conv2d) and isinstance(back.deconv, nn.ConvTranspose1d)

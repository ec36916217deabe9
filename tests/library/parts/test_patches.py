import itertools

import pytest
import torch
from torch import nn

from residual_edu import Patchify, Unpatchify
from tests.library.agree import agree

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
    """The definition: each position adds a patch; where patches overlap they sum."""
    size, axes = weight.shape[2], x.ndim - 2
    space = [(length - 1) * stride + size for length in x.shape[1:-1]]
    y = bias.expand(len(x), *space, -1).clone()
    for place, offset in itertools.product(places(x.shape[1:-1]), places([size] * axes)):
        at = tuple(stride * i + k for i, k in zip(place, offset, strict=True))
        y[(slice(None), *at)] = y[(slice(None), *at)] + x[(slice(None), *place)] @ weight[(..., *offset)]
    return y


@pytest.mark.parametrize("stride", [None, 1, 3])
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("kind", [Patchify, Unpatchify])
def test_values_and_gradients_in_float64(kind, space, stride):
    made = kind(2, 3, len(space), 2, stride).double()
    space = space if kind is Patchify else (3, 2, 2)[: len(space)]
    layer, formula = (made.conv, cut) if kind is Patchify else (made.deconv, put_back)
    x = torch.randn(2, *space, 2, dtype=torch.float64, requires_grad=True)
    agree(made(x), formula(x, layer.weight, layer.bias, stride or 2), [x, *made.parameters()], 1e-12)


def test_patches_with_inverse_weights_are_put_back():
    made, back = Patchify(1, 4, 2, 2, bias=False).double(), Unpatchify(4, 1, 2, 2, bias=False).double()
    nn.init.orthogonal_(made.conv.weight.data.view(4, 4))
    back.deconv.weight.data = made.conv.weight.data
    x = torch.randn(2, 4, 6, 1).double()
    torch.testing.assert_close(back(made(x)), x)


def test_names_sizes_and_no_bias():
    made, back = Patchify(2, 3, 2, 4, stride=2, bias=False), Unpatchify(2, 3, 1, 4)
    assert list(made.state_dict()) == ["conv.weight"] and list(back.state_dict()) == ["deconv.weight", "deconv.bias"]
    assert (made.data_dim, made.patch_size, made.stride, back.stride) == (2, 4, 2, 4)
    assert isinstance(made.conv, nn.Conv2d) and isinstance(back.deconv, nn.ConvTranspose1d)

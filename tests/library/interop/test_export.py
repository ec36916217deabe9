"""Exported once, a model serves other batches; and other lengths, where its length is no part of it."""

import pytest
import torch
from torch._dynamo.exc import UserError
from torch.export import Dim, export

from .models import NETWORKS
from .tools import replaced, same

pytestmark = pytest.mark.usefixtures("all_as_installed")
QUICK = ["AdaLN_Hyena", "ViT5Net_attention", "LanguageModel_gqa_rope"]
OF_ANY_LENGTH = ["ResidualNetwork_cross", "Configurable_window", "Configurable_mla_alibi"]
OF_ANY_LENGTH += ["LanguageModel_gqa_rope", "LanguageModel_mla", "LanguageModel_sinusoidal"]
AXES = {name: [0, 1] if name in OF_ANY_LENGTH else [0] for name in NETWORKS}


def agree(name, axes):
    if torch.__version__ < "2.7" and "Hyena" in name:
        pytest.skip("torch 2.6 does not export a Fourier transform of a free size")
    model, call = NETWORKS[name].made(), NETWORKS[name].inputs()
    shapes = replaced(call, lambda each: dict.fromkeys(axes_of(each, axes), Dim.DYNAMIC), lambda other: None)
    program = export(model, (), call, dynamic_shapes=shapes).module()
    same(program(**call), model(**call))
    other = replaced(call, lambda each: larger(each, axes_of(each, axes)))
    same(program(**other), model(**other))


def axes_of(x, axes):
    """A mask has the length on two axes."""
    return [*axes, 2] if x.dtype == torch.bool and 1 in axes else axes[: x.ndim]


def larger(x, axes):
    """``x`` with two entries more along each of ``axes``; a causal mask stays one."""
    for axis in axes:
        x = torch.cat([x, x.narrow(axis, 0, 2)], axis)
    return torch.ones_like(x).tril() if x.dtype == torch.bool else x


@pytest.mark.parametrize("name", QUICK)
def test_of_another_size(name):
    agree(name, AXES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NETWORKS if name not in QUICK])
def test_each_of_another_size(name):
    agree(name, AXES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Classification_Mamba_2d", "ResidualNetwork_Hyena_2d", "ViT5Net_attention"])
def test_a_scan_a_long_convolution_and_a_grid_of_patches_are_of_one_length(name):
    """Another one is refused, at the export or at the call."""
    with pytest.raises((AssertionError, UserError), match="^(Guard failed|Constraints violated)"):
        agree(name, [0, 1, 2])

"""Exported once, a model serves other batches and other lengths: the program returns what the model does."""

from functools import cache

import pytest
from torch.export import Dim, export

from .models import MODELS, Method, seen
from .tools import BATCH, batch_axis, batch_of, length_axes, longer, mapped, replaced, same, tensors
from .turns import DUE

pytestmark = pytest.mark.usefixtures("all_as_installed")

FFT = "the length of a Fourier transform is one with small prime factors, which is searched for in numbers"
GRID = "the number of patches, and so of tokens, is part of the model"
TAPS = "the number of taps is given as whole numbers, which an exported program keeps"
FIXED = {
    "CKConv": FFT,
    "Hyena": FFT,
    "ResidualNetwork_2d": FFT,
    "ViT5Attention": GRID,
    "ViT5HyenaAdapter": GRID,
    "ViT5ResidualBlock": GRID,
    "ViT5_": GRID,
    "ViT5Net_": GRID,
    "ViT5ClassificationNet": GRID,
    "Denoiser": GRID,
    "SIREN": TAPS,
    "CausalConv1D": "its example has 5 channels, which are no length; MambaLayer holds one whose length changes",
    "RegisterCompressConcat": "the number of registers is part of the model",
    "RegisterPooling": "the number of registers is part of the model",
}
ORDINARY = ["Attention", "LanguageModel_gqa", "ResidualBlock_cross", "MambaLayer", "QKV_CKConv", "ViT5Net_attention"]


def why_fixed(name):
    return next((why for part, why in FIXED.items() if part in name), "")


@cache
def with_a_batch():
    """Position encodings, which have no forward, are exported within their blocks."""
    batches = [
        name for name in MODELS if any(each.ndim and each.shape[0] in BATCH for each in tensors(MODELS[name].call))
    ]
    return [name for name in batches if not isinstance(seen(name), Method)]


@cache
def of_lengths():
    free = [name for name in with_a_batch() if not why_fixed(name)]
    return [name for name in free if any(length_axes(each) for each in tensors(MODELS[name].call))]


def exported(name, axes):
    """The model and its program, in which the ``axes`` of each tensor may have other lengths."""
    model, call = MODELS[name].made(), MODELS[name].inputs()
    shapes = mapped(call, lambda each: dict.fromkeys(axes(each), Dim.DYNAMIC))
    return model, export(model, (), call, dynamic_shapes=shapes).module()


def agree(name, axes):
    model, program = exported(name, axes)
    same(program(**MODELS[name].inputs()), model(**MODELS[name].inputs()))
    other = replaced(MODELS[name].inputs(), lambda each: longer(each, axes(each)))
    same(program(**other), model(**other))


def other_batch(name):
    batch = batch_of(MODELS[name].call)
    agree(name, lambda each: batch_axis(each, batch))


def other_batch_and_length(name):
    batch = batch_of(MODELS[name].call)
    agree(name, lambda each: batch_axis(each, batch) + length_axes(each))


@pytest.mark.parametrize("name", ORDINARY)
def test_of_another_batch(name):
    other_batch(name)


@pytest.mark.parametrize("name", [name for name in ORDINARY if not why_fixed(name) and name != "MambaLayer"])
def test_of_another_length(name):
    other_batch_and_length(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in DUE if name in with_a_batch() and name not in of_lengths()])
def test_each_of_another_batch_alone(name):
    other_batch(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in DUE if name in of_lengths()])
def test_each_of_another_batch_and_length(name):
    other_batch_and_length(name)


def test_what_has_a_fixed_length_is_listed():
    assert len(of_lengths()) > 60 and all(any(part in name for name in MODELS) for part in FIXED)

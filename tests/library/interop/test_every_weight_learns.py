"""No weight is built that no gradient reaches: DistributedDataParallel would end at the second step."""

from contextlib import suppress
from functools import partial
from itertools import product

import pytest
import torch

import residual_edu as library
from residual_edu import InvalidInput
from tests.library.configurable import small

from .models import MODELS, Model, c, cross, hyena, mamba, qkv, x
from .tools import tensors

C, OFF, R = c.C, c.OFF, 3
pytestmark = pytest.mark.usefixtures("all_as_installed")
FLAT = partial(library.ViT5HyenaAdapter, grid_w=2)
MIXERS = {"off": OFF, "attention": partial(library.ViT5Attention, C, 1, 2, 2, R), "Mamba": partial(qkv, mamba)}
MIXERS |= {"Hyena": partial(FLAT, hyena(2)), "FiLM": partial(FLAT, hyena(2, film=True))}
SIGNAL, CONDITION = x(2, 5 + R, C), x(2, 2, C)


def across(mixer):
    return partial(library.QKVConditionMixer, C, mixer)


def residual_blocks():
    """With a norm or a condition that the mixer does not ask for, too."""
    filmed = hyena(1, film=True).args[1]  # without its projections
    for mixer, other, mlp, norm in product(
        MIXERS.values(), [OFF, cross, across(filmed)], [OFF, c.DENSE], [OFF, c.NORM]
    ):
        block = partial(library.ResidualBlock, mixer, norm, other, norm, mlp, norm, OFF)
        yield Model(block, {"x": SIGNAL, "condition": CONDITION})


def adaln_blocks():
    for mixer, mlp in product(MIXERS.values(), [OFF, c.DENSE]):
        block = partial(library.AdaLNZeroResidualBlock, mixer, c.NORM, mlp, c.NORM, c.NORM, OFF, C)
        yield Model(block, {"x": SIGNAL, "condition": CONDITION})


def vit5_blocks():
    pooling, grn = partial(library.RegisterPooling, R), partial(library.GlobalResponseNorm, C)
    for mixer, mlp, scale, pooled, registers in product(
        MIXERS.values(), [OFF, c.DENSE], [0, 0.1], [None, pooling], [0, R]
    ):
        block = partial(library.ViT5ResidualBlock, mixer, c.NORM, mlp, c.NORM, C, scale, 0.1, pooled, registers, 5, grn)
        yield Model(block, {"x": SIGNAL})


def language_models():
    for attention, ffn, norm, position, pre_norm, qk_norm in small.GRID[::3]:
        more = {"attention": attention, "ffn": ffn, "norm": norm, "position": position, "pre_norm": pre_norm}
        config = library.ModelConfig(small.config(**more, qk_norm=qk_norm), 7, 2, tie_embeddings=qk_norm)
        yield Model(partial(library.LanguageModel, config), {"tokens": torch.tensor([[0, 3, 2, 4, 5]])})


def built(family):
    """Each of a family that has weights and is not refused, and its call."""
    for way in family():
        with suppress(InvalidInput):
            if list((model := way.made().train()).parameters()):
                yield model, way.inputs()


def unreached(model, call):
    sum(each.square().sum() for each in tensors(model(**call)) if each.requires_grad).backward()
    return [name for name, weight in model.named_parameters() if weight.grad is None]


@pytest.mark.parametrize("family", [residual_blocks, adaln_blocks, vit5_blocks, language_models])
def test_each_way_to_build_it(family):
    ways = list(built(family))
    assert len(ways) >= 6 and [unreached(*way) for way in ways] == [[]] * len(ways)


@pytest.mark.parametrize("name", MODELS)
def test_each_module(name):
    if list((model := MODELS[name].made().train()).parameters()):
        assert unreached(model, MODELS[name].inputs()) == []

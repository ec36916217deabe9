"""Built on the meta device, then given memory and started, or loaded: the numbers of a model built directly."""

import copy
import pickle

import pytest
import torch
from torch import nn

from residual_edu import MLP, InvalidInput, LayerScale, ViT5ClassificationNet, reset_parameters
from residual_edu.parts.start import copy_values, starting

from .models import MODELS
from .tools import same

pytestmark = pytest.mark.usefixtures("all_as_installed")


def without_values(name):
    with torch.device("meta"):
        return MODELS[name].build().eval()


def with_memory(name):
    """The model on the CPU, each of its parameters NaN until it is set."""
    model = without_values(name).to_empty(device="cpu")
    for each in model.parameters():
        nn.init.constant_(each, torch.nan)
    return model


@pytest.mark.parametrize("name", MODELS)
def test_started_it_is_the_model_that_was_built_under_the_same_seed(name):
    direct, model = MODELS[name].made(), with_memory(name)
    torch.manual_seed(0)
    reset_parameters(model)
    same(dict(model.state_dict()), dict(direct.state_dict()), rtol=0, atol=0)
    same(model(**MODELS[name].inputs()), direct(**MODELS[name].inputs()), rtol=0, atol=0)


@pytest.mark.parametrize("order", ["parents first", pytest.param("children first", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MODELS)
def test_in_any_order_each_parameter_starts_as_it_is_built(name, order):
    """As loops of other projects do it: each module that can. Random numbers are as large, the rest is the same."""
    model, (first, second) = with_memory(name), built_twice(name)
    modules = list(model.modules())
    for each in modules if order == "parents first" else reversed(modules):
        if hasattr(each, "reset_parameters"):
            each.reset_parameters()
    for key, found in model.named_parameters():
        assert found.isfinite().all(), key
        if first[key].equal(second[key]):
            torch.testing.assert_close(found, first[key], rtol=0, atol=0)
        elif found.numel() > 7:  # the size of fewer random numbers says little
            assert 0.2 < found.norm() / first[key].norm() < 5, key


def built_twice(name):
    """The parameters as two seeds make them: what is the same in both is not random."""
    models = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        models.append(dict(MODELS[name].build().named_parameters()))
    return models


@pytest.mark.parametrize("way", ["assigned", pytest.param("copied", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MODELS)
def test_loaded_strictly_it_returns_the_same(name, way):
    direct, model = MODELS[name].made(), without_values(name)
    if way == "copied":
        model.to_empty(device="cpu")
    model.load_state_dict(direct.state_dict(), strict=True, assign=way == "assigned")
    same(model(**MODELS[name].inputs()), direct(**MODELS[name].inputs()), rtol=0, atol=0)


@pytest.mark.parametrize("name", MODELS)
def test_what_owns_parameters_can_reset_them(name):
    for each in without_values(name).modules():
        if list(each.parameters(recurse=False)):
            assert callable(getattr(each, "reset_parameters", None)), type(each).__name__


def test_what_cannot_reset_its_parameters_is_named():
    model = nn.Sequential(nn.Linear(2, 2), nn.MultiheadAttention(4, 2))
    with pytest.raises(InvalidInput, match="^MultiheadAttention must have reset_parameters, which sets in_proj_weight"):
        reset_parameters(model)
    with pytest.raises(InvalidInput, match="^module must be a Module, got "):
        reset_parameters(nn.Linear)


def ones(size):
    return nn.init.ones_


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_starts_itself_and_not_what_it_was_copied_from(copied):
    model = MLP(2, "relu", nn.Identity, init_method_in=ones)
    other = copied(model)
    for each in (model, other):
        nn.init.zeros_(each.layer1.weight)
    reset_parameters(other)
    assert other.layer1.weight.eq(1).all() and model.layer1.weight.eq(0).all()


def test_a_layer_starts_as_its_class_does_and_then_as_told():
    torch.manual_seed(0)
    layer = starting(
        starting(nn.Linear(3, 2), lambda each: each.weight.data.mul_(2)), lambda each: each.bias.data.zero_()
    )
    torch.manual_seed(0)
    plain = nn.Linear(3, 2)
    torch.manual_seed(0)
    layer.reset_parameters()
    torch.testing.assert_close(layer.weight, 2 * plain.weight)
    assert layer.bias.eq(0).all()


def test_a_class_of_ones_own_is_reset_after_its_children():
    class Mine(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = LayerScale(2, 0.5)
            self.sums = nn.Parameter(torch.zeros(2))

        def reset_parameters(self):
            copy_values(self.sums, self.gate.gamma.data + 1)

    mine = Mine()
    nn.init.zeros_(mine.gate.gamma)
    reset_parameters(nn.Sequential(mine))
    assert mine.gate.gamma.tolist() == [0.5, 0.5] and mine.sums.tolist() == [1.5, 1.5]


def test_marks_of_weight_decay_stay():
    assert isinstance(model := with_memory("ViT5Net_attention"), ViT5ClassificationNet)
    reset_parameters(model)
    assert model.tokens.weight._no_weight_decay and model.blocks[0].ls_attn.gamma.requires_grad

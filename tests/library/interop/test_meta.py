"""Built on the meta device, then given memory and started, or loaded: as a model that is built directly.

There tensors have no values, so that a pass reads none; tables that are not parameters keep theirs.
"""

import pytest
import torch
from torch import nn

from residual_edu import (
    Denoiser,
    InvalidInput,
    KernelFiLMGenerator,
    LanguageModel,
    LayerScale,
    MambaLayer,
    SIRENKernel,
    reset_parameters,
)
from residual_edu.parts.start import copy_values

from .models import MODELS, NETWORKS
from .tools import replaced, same, tensors

KINDS = (Denoiser, KernelFiLMGenerator, LanguageModel, MambaLayer, SIRENKernel)

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


# Those in which a layer that its owner fills again is built before other layers that draw random numbers.
APART = [name for name in MODELS if any(isinstance(each, KINDS) for each in without_values(name).modules())]
NESTED = ["AdaLN_Hyena", "Classification_Mamba_2d", "ViT5Net_Hyena", "LanguageModel_mla", "Denoiser"]


@pytest.mark.parametrize("name", [name for name in MODELS if name not in APART])
def test_started_it_is_the_model_that_was_built_under_the_same_seed(name):
    direct, model = MODELS[name].made(), with_memory(name)
    torch.manual_seed(0)
    reset_parameters(model)
    same(dict(model.state_dict()), dict(direct.state_dict()), rtol=0, atol=0)


@pytest.mark.parametrize("name", [name for name in APART if name in NESTED or name not in NETWORKS])
def test_elsewhere_it_starts_from_the_same_distribution(name):
    built, reset = many(MODELS[name].build), many(lambda: started(name))
    for key, expected in built.items():
        spread = expected.std(0).square().mean().sqrt().item()
        torch.testing.assert_close(reset[key].mean(0), expected.mean(0), rtol=1e-6, atol=1.5 * spread, msg=key)
        assert 0.6 * spread <= reset[key].std(0).square().mean().sqrt() <= 1.6 * spread, key


def started(name):
    model = with_memory(name)
    reset_parameters(model)
    return model


def many(make):
    """The parameters of 30 models, stacked: each in float64, so that what is constant has no spread."""
    torch.manual_seed(0)
    models = [dict(make().named_parameters()) for _ in range(30)]
    return {key: torch.stack([model[key].detach().double() for model in models]) for key in models[0]}


@pytest.mark.parametrize("way", ["assigned", pytest.param("copied", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MODELS)
def test_loaded_strictly_it_returns_the_same(name, way):
    """Its state holds parameters alone."""
    direct, model = MODELS[name].made(), without_values(name)
    assert set(direct.state_dict()) == {key for key, _ in direct.named_parameters(remove_duplicate=False)}
    model = model.to_empty(device="cpu") if way == "copied" else model
    model.load_state_dict(direct.state_dict(), strict=True, assign=way == "assigned")
    same(model(**MODELS[name].inputs()), direct(**MODELS[name].inputs()), rtol=0, atol=0)


@pytest.mark.parametrize("name", MODELS)
def test_a_forward_and_a_backward_pass_read_no_value_and_reach_every_weight(name):
    """On a GPU a read waits for all work before it; DDP ends at the second step where a weight has no gradient."""
    model = MODELS[name].made().to("meta").train()
    call = replaced(MODELS[name].inputs(), lambda each: each.to("meta"))
    found = [each for each in tensors(model(**call)) if each.requires_grad]
    if found:
        sum(each.sum() for each in found).backward()
    assert all(each.is_meta for each in found)
    assert [key for key, weight in model.named_parameters() if weight.grad is None] == []


def test_what_cannot_reset_its_parameters_is_named():
    model = nn.Sequential(nn.Linear(2, 2), nn.MultiheadAttention(4, 2))
    with pytest.raises(InvalidInput, match="^MultiheadAttention must have reset_parameters, which sets in_proj_weight"):
        reset_parameters(model)


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

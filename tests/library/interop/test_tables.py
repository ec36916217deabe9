"""Tables that are not parameters keep their digits and their values, and are not stored."""

import pytest

from residual_edu.parts.tables import Tables

from .models import MODELS
from .tools import same

pytestmark = pytest.mark.usefixtures("all_as_installed")
NAMES = ["Configurable_mla_alibi", "LanguageModel_gqa_rope", "LanguageModel_sinusoidal", "ViT5Net_attention"]


def tables(model):
    return [table for each in model.modules() if isinstance(each, Tables) for table in each.tables]


@pytest.mark.parametrize("name", NAMES)
def test_half_to_empty_and_the_meta_device_leave_them_as_they_were(name):
    before = tables(MODELS[name].made())
    assert before
    for model in (MODELS[name].made().half(), MODELS[name].made().to("meta").to_empty(device="cpu")):
        same(tables(model), before, rtol=0, atol=0)


@pytest.mark.parametrize("name", MODELS)
def test_the_state_holds_parameters_alone(name):
    model = MODELS[name].made()
    assert set(model.state_dict()) == {key for key, _ in model.named_parameters(remove_duplicate=False)}

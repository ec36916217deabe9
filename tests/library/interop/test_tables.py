"""Tables that are not parameters follow the model to a device, keep their digits, and are not stored."""

import pytest
import torch

from residual_edu.parts.tables import Tables

from .models import MODELS, seen
from .tools import same

pytestmark = pytest.mark.usefixtures("all_as_installed")
WITH_TABLES = [name for name in MODELS if any(isinstance(each, Tables) for each in seen(name).modules())]


def tables(model):
    return [table for each in model.modules() if isinstance(each, Tables) for table in each]


def plain_tensors(module):
    """The names of attributes that are tensors, or hold some, and are neither parameters nor buffers."""
    held = {
        name: value if isinstance(value, tuple | list) else list(value.values()) if isinstance(value, dict) else [value]
        for name, value in vars(module).items()
        if name not in ("_parameters", "_buffers", "_modules")
    }
    return [name for name, values in held.items() if any(isinstance(each, torch.Tensor) for each in values)]


@pytest.mark.parametrize("name", MODELS)
def test_no_other_module_holds_a_tensor(name):
    for each in MODELS[name].made().modules():
        assert isinstance(each, Tables) or plain_tensors(each) == [], type(each).__name__


def test_rotary_tables_are_among_them():
    assert {"RoPE", "ALiBi", "Sinusoidal", "ViT5Attention", "LanguageModel_mla", "ViT5Net_gap"} <= set(WITH_TABLES)


@pytest.mark.parametrize("name", WITH_TABLES)
def test_they_follow_a_move_and_keep_their_digits(name, monkeypatch):
    model, seen = MODELS[name].made(), []
    before = [table.clone() for table in tables(model)]
    model.half()
    same(tables(model), before, rtol=0, atol=0)
    monkeypatch.setattr(torch.Tensor, "to", lambda self, device: (seen.append(device), self)[1])
    model._apply(lambda each: torch.empty_like(each, device="cpu"))
    assert set(seen) == {torch.device("cpu")} and len(seen) >= len(before)  # one that two modules share moves twice


@pytest.mark.parametrize("name", WITH_TABLES)
def test_they_are_not_stored(name):
    model = MODELS[name].made()
    assert set(model.state_dict()) == {key for key, _ in model.named_parameters(remove_duplicate=False)}


@pytest.mark.parametrize("name", WITH_TABLES)
def test_to_empty_and_the_meta_device_leave_them_their_values(name):
    direct, model = MODELS[name].made(), MODELS[name].made().to("meta")
    same(tables(model), tables(direct), rtol=0, atol=0)
    model.to_empty(device="cpu")
    same(tables(model), tables(direct), rtol=0, atol=0)

"""Compiled into one graph, with and without sizes that may change, a model returns what it returned before."""

import pytest
import torch

from residual_edu import LanguageModel

from .models import MODELS
from .test_export import why_fixed
from .tools import batch_of, length_axes, longer, replaced, same
from .turns import DUE

pytestmark = pytest.mark.usefixtures("all_as_installed")
ORDINARY = ["Attention", "LanguageModel_gqa", "MambaLayer", "QKV_CKConv", "AdaLNZeroResidualBlock", "ViT5Net_attention"]


def compiled(model, **how):
    torch.compiler.reset()
    return torch.compile(model, fullgraph=True, **how)


def gradients(model, call):
    found = model(**call)
    sums = [each.square().sum() for each in (found if isinstance(found, tuple | list) else [found]) if is_float(each)]
    parameters = [each for each in model.parameters() if each.requires_grad]
    return [found, *torch.autograd.grad(sum(sums), parameters, allow_unused=True, materialize_grads=True)]


def is_float(value):
    return isinstance(value, torch.Tensor) and value.requires_grad


def agree(name, **how):
    model, call = MODELS[name].made(), MODELS[name].inputs()
    same(compiled(model, **how)(**call), model(**call))


@pytest.mark.parametrize("name", ORDINARY)
def test_into_one_graph(name):
    agree(name, backend="eager")


@pytest.mark.slow
@pytest.mark.parametrize("name", DUE)
def test_each_into_one_graph_for_sizes_that_change(name):
    agree(name, backend="eager", dynamic=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", DUE)
def test_each_into_one_graph_with_its_backward_pass(name):
    model, call = MODELS[name].made(), MODELS[name].inputs()
    other = compiled(model, backend="aot_eager")
    if any(is_float(each) for each in flat(model(**call))):
        same(gradients(other, call), gradients(model, call), rtol=1e-4, atol=1e-5)
    else:
        same(other(**call), model(**call))


def flat(value):
    return value if isinstance(value, tuple | list) else [value]


LENGTHS = ["Attention_causal", "Configurable_mla_rope", "LanguageModel_sinusoidal"]
LENGTHS += [pytest.param("QKV_Mamba", marks=pytest.mark.slow)]


class Counting:
    """A backend that counts its graphs."""

    def __init__(self):
        self.graphs = 0

    def __call__(self, graph, example_inputs):
        self.graphs += 1
        return graph.forward


@pytest.mark.parametrize("name", LENGTHS)
def test_one_graph_serves_all_lengths(name):
    counting = Counting()
    model, call = MODELS[name].made(), MODELS[name].inputs()
    graph = compiled(model, backend=counting, dynamic=True)
    axes = (lambda each: [1]) if isinstance(model, LanguageModel) else length_axes
    for _ in range(2):
        same(graph(**call), model(**call))
        call = replaced(call, lambda each: longer(each, axes(each)))
    assert counting.graphs == 1 and not why_fixed(name) and batch_of(call) in (2, 3)

"""Compiled into one graph, forward and backward, a model returns what it returned before; one graph for all lengths."""

import pytest
import torch

from .models import NETWORKS
from .tools import gradients, replaced, same

pytestmark = pytest.mark.usefixtures("all_as_installed")
QUICK = ["ResidualNetwork_cross", "Classification_Mamba_2d", "ViT5Net_attention", "LanguageModel_gqa_rope"]


def compiled(model, **how):
    torch.compiler.reset()
    return torch.compile(model, fullgraph=True, **how)


@pytest.mark.parametrize("name", QUICK)
def test_into_one_graph(name):
    model, call = NETWORKS[name].made(), NETWORKS[name].inputs()
    same(compiled(model, backend="eager")(**call), model(**call))


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_each_with_its_backward_pass(name):
    model, call = NETWORKS[name].woken(), NETWORKS[name].inputs()
    same(gradients(compiled(model, backend="aot_eager"), call), gradients(model, call), rtol=1e-4, atol=1e-5)


class Counting:
    """A backend that counts its graphs."""

    def __init__(self):
        self.graphs = 0

    def __call__(self, graph, example_inputs):
        self.graphs += 1
        return graph.forward


LENGTHS = ["Configurable_window", "Configurable_mla_alibi", "LanguageModel_gqa_rope", "LanguageModel_sinusoidal"]


@pytest.mark.parametrize("name", LENGTHS)
def test_one_graph_serves_all_lengths(name):
    counting = Counting()
    model, call = NETWORKS[name].made(), NETWORKS[name].inputs()
    graph = compiled(model, backend=counting, dynamic=True)
    for _ in range(3):
        same(graph(**call), model(**call))
        call = replaced(call, one_longer)
    assert counting.graphs == 1


def one_longer(x):
    """A text, a signal or a mask with one position more."""
    if x.dtype == torch.bool:
        return torch.ones(len(x), x.shape[1] + 1, x.shape[1] + 1, dtype=torch.bool).tril()
    return torch.cat([x, x[:, :1]], dim=1)

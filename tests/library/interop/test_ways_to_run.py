"""Compiled into one graph, exported, under vmap and under autocast a model returns what it returned before."""

import pytest
import torch
from torch.export import Dim, export
from torch.func import functional_call, stack_module_state

from .models import NETWORKS
from .tools import gradients, replaced, same, tensors

pytestmark = pytest.mark.usefixtures("all_as_installed")


def compiled(model, **how):
    torch.compiler.reset()
    return torch.compile(model, fullgraph=True, **how)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_into_one_graph_with_its_backward_pass(name):
    model, call = NETWORKS[name].woken(), NETWORKS[name].inputs()
    same(gradients(compiled(model, backend="aot_eager"), call), gradients(model, call), rtol=1e-4, atol=1e-5)


class Counting:
    """A backend that counts its graphs."""

    def __init__(self):
        self.graphs = 0

    def __call__(self, graph, example_inputs):
        self.graphs += 1
        return graph.forward


LENGTHS = ["Configurable_window", "Configurable_mla_alibi", "LanguageModel_sinusoidal"]  # each position


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


EXPORTED = ["AdaLN_Hyena", "ViT5Net_attention", "LanguageModel_gqa_rope"]
OF_ANY_LENGTH = ["ResidualNetwork_cross", "Configurable_window", "Configurable_mla_alibi"]
OF_ANY_LENGTH += ["LanguageModel_gqa_rope", "LanguageModel_mla", "LanguageModel_sinusoidal"]


@pytest.mark.parametrize(
    "name", [name if name in EXPORTED else pytest.param(name, marks=pytest.mark.slow) for name in NETWORKS]
)
def test_exported_once_it_serves_other_batches_and_lengths(name):
    agree(name, [0, 1] if name in OF_ANY_LENGTH else [0])


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.filterwarnings("ignore:There is a performance drop")  # of the fused attention, within vmap
def test_vmap_over_inputs_and_over_parameters(name):
    model, other, call = NETWORKS[name].woken(), NETWORKS[name].build().eval(), NETWORKS[name].inputs()
    flipped = replaced(call, lambda each: each.flip(0))
    stacked = replaced(call, lambda each: torch.stack([each, each.flip(0)]))
    axes = replaced(call, lambda each: 0, lambda other: None)
    state = stack_module_state([model, other])
    found = torch.vmap(lambda s, c: tensors(functional_call(model, s, (), c)), (0, axes))(state, stacked)
    pairs = zip(tensors(model(**call)), tensors(other(**flipped)), strict=True)
    same(found, [torch.stack(pair) for pair in pairs], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_under_autocast_to_16_bits_it_gives_the_numbers_of_float32(name):
    model, call = NETWORKS[name].woken(), NETWORKS[name].inputs()
    expected = flat(gradients(model, call))
    with torch.autocast("cpu", torch.bfloat16):
        found = flat(gradients(model, call))
    for a, b in zip(found, expected, strict=True):
        assert (a - b).norm() <= 0.2 * b.norm()


def flat(results):
    """The output, and all gradients as one vector."""
    output, *weights = results
    return tensors(output)[0].float(), torch.cat([each.flatten() for each in weights])

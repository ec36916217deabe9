"""torch.func: over several inputs, over several sets of parameters, and with parameters given at the call."""

import pytest
import torch
from torch.func import functional_call, grad, stack_module_state

from .models import NETWORKS
from .tools import replaced, same, tensors

pytestmark = [
    pytest.mark.usefixtures("all_as_installed"),
    pytest.mark.filterwarnings("ignore:There is a performance drop"),  # of the fused attention, within vmap
]


@pytest.mark.parametrize("name", NETWORKS)
def test_over_inputs(name):
    model, call = NETWORKS[name].woken(), NETWORKS[name].inputs()
    stacked = replaced(call, lambda each: torch.stack([each, each.flip(0)]))
    axes = replaced(call, lambda each: 0, lambda other: None)
    found = torch.vmap(lambda call: tensors(model(**call)), (axes,))(stacked)
    flipped = model(**replaced(call, lambda each: each.flip(0)))
    pairs = zip(tensors(model(**call)), tensors(flipped), strict=True)
    same(found, [torch.stack(pair) for pair in pairs], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_over_parameters(name):
    model, call = NETWORKS[name].made(), NETWORKS[name].inputs()
    other = NETWORKS[name].build().eval()
    state = stack_module_state([model, other])
    found = torch.vmap(lambda *state: tensors(functional_call(model, state, (), call)))(*state)
    pairs = zip(tensors(model(**call)), tensors(other(**call)), strict=True)
    same(found, [torch.stack(pair) for pair in pairs], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_parameters_given_at_the_call(name):
    model, call, given = NETWORKS[name].made(), NETWORKS[name].inputs(), dict(NETWORKS[name].build().named_parameters())

    def loss(state):
        return sum(each.square().sum() for each in tensors(functional_call(model, state, (), call)))

    expected = torch.autograd.grad(loss(given), list(given.values()), allow_unused=True, materialize_grads=True)
    same(list(grad(loss)(given).values()), expected, rtol=1e-4, atol=1e-5)
    assert all(each.grad is None for each in model.parameters())

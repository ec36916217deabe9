"""torch.func: over several inputs, over several sets of parameters, and with parameters given at the call."""

import pytest
import torch
from torch.func import functional_call, grad, stack_module_state

from .models import MODELS, seen
from .tools import mapped, replaced, same, tensors

pytestmark = [
    pytest.mark.usefixtures("all_as_installed"),
    pytest.mark.filterwarnings("ignore:There is a performance drop"),
]  # of the fused attention, within vmap

WITH_PARAMETERS = [name for name in MODELS if list(seen(name).parameters())]
WITH_TENSORS = [name for name in MODELS if tensors(MODELS[name].call)]


def results(value):
    """The tensors of a result alone: a language model returns a number as well, which vmap does not."""
    return tensors(value)


@pytest.mark.parametrize("name", WITH_TENSORS)
def test_over_inputs(name):
    model, call = MODELS[name].made(), MODELS[name].inputs()
    other = replaced(call, lambda each: each if each.dtype == torch.bool or not each.ndim else each.flip(0))
    stacked = iter([torch.stack(pair) for pair in zip(tensors(call), tensors(other), strict=True)])
    given = replaced(call, lambda each: next(stacked))
    found = torch.vmap(lambda kwargs: results(model(**kwargs)), (mapped(given, lambda each: 0),))(given)
    one_by_one = zip(results(model(**call)), results(model(**other)), strict=True)
    same(found, [torch.stack(pair) for pair in one_by_one], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_PARAMETERS)
def test_over_parameters(name):
    model, call = MODELS[name].made(), MODELS[name].inputs()
    other = MODELS[name].build().eval()
    found = torch.vmap(lambda *state: results(functional_call(model, state, (), call)))(
        *stack_module_state([model, other])
    )
    one_by_one = zip(results(model(**call)), results(other(**call)), strict=True)
    same(found, [torch.stack(pair) for pair in one_by_one], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", WITH_PARAMETERS)
def test_parameters_given_at_the_call(name):
    model, call, given = MODELS[name].made(), MODELS[name].inputs(), dict(MODELS[name].build().named_parameters())
    loss = lambda state: sum(each.square().sum() for each in results(functional_call(model, state, (), call)))  # noqa: E731
    found = grad(loss)(given)
    expected = torch.autograd.grad(loss(given), list(given.values()), allow_unused=True, materialize_grads=True)
    same(list(found.values()), expected, rtol=1e-4, atol=1e-5)
    assert all(each.grad is None for each in model.parameters())

"""No check reads a value of a tensor that is not on the CPU: a GPU would have to finish its work first.

On the meta device tensors have no values, so that a read of one fails there, whatever asks for it.
"""

import pytest
import torch

from .models import MODELS
from .tools import replaced, tensors

pytestmark = pytest.mark.usefixtures("all_as_installed")


def on_meta(value):
    return replaced(value, lambda each: each.to("meta"))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_a_forward_and_a_backward_pass_read_no_value(name, training):
    model = MODELS[name].made().to("meta").train(training)
    found = [each for each in tensors(model(**on_meta(MODELS[name].inputs()))) if each.requires_grad]
    if found:
        sum(each.sum() for each in found).backward()
    assert all(each.is_meta for each in found)


def test_a_value_on_meta_cannot_be_read():
    with pytest.raises((RuntimeError, NotImplementedError)):
        bool(torch.ones(1, device="meta").sum() > 0)

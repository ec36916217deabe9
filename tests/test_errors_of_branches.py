import re

import pytest
import torch
from torch import nn

from residual_edu import errors
from residual_edu.errors import InvalidInput

pytestmark = pytest.mark.usefixtures("as_installed")


class Mixer(nn.Module):
    def forward(self, query, key, value):
        return value


@pytest.mark.parametrize("target", [nn.ReLU, lambda: nn.ReLU(), str.upper])
def test_what_may_return_a_module(target):
    errors.check_target(target)


def test_what_is_known_to_return_none():
    with pytest.raises(InvalidInput, match="^target must be a class of modules, got int$"):
        errors.check_target(int)
    with pytest.raises(InvalidInput, match="^target must be a class or function that returns a module, got 'ReLU'$"):
        errors.check_target("ReLU")
    with pytest.raises(InvalidInput, match="; a module that is built needs no config$"):
        errors.check_target(nn.ReLU())


def test_a_norm_goes_where_its_layer_goes():
    errors.check_norm_left_out("mlp_cfg", "mlp_norm_cfg", nn.Identity(), True)
    message = "^mlp_norm_cfg must be nn.Identity where mlp_cfg is, got LayerNorm, which would never run$"
    with pytest.raises(InvalidInput, match=message):
        errors.check_norm_left_out("mlp_cfg", "mlp_norm_cfg", nn.LayerNorm(2), False)


def test_arguments_of_a_layer():
    errors.check_takes("mlp", nn.ReLU(), "x")
    errors.check_takes("mixer", Mixer(), "q", "k", "v")
    errors.check_takes("any", nn.Module(), "x", "condition")
    message = "mixer must take (x), Mixer.forward takes (query, key, value); wrap it in a module that fits"
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        errors.check_takes("mixer", Mixer(), "x")


def test_shape_of_a_branch():
    x = torch.zeros(2, 5, 4)
    assert errors.check_branch(x, x) is x
    for shape in [(2, 5, 1), (1, 5, 4), (5, 4), (2, 5, 4, 1)]:
        message = f"a branch must keep the shape of x, (2, 5, 4), got {shape}"
        with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
            errors.check_branch(torch.zeros(shape), x)

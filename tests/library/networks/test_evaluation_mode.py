import pytest
from torch import nn

from residual_edu.networks.evaluation_mode import evaluation_mode


def modes(model):
    return [module.training for module in model.modules()]


@pytest.mark.parametrize("stop", [None, ValueError, KeyboardInterrupt])
def test_every_module_returns_to_its_own_mode(stop):
    model = nn.Sequential(nn.Sequential(nn.ReLU()), nn.Sequential(nn.Dropout(), nn.ReLU()))
    model[1].eval()
    model[1][1].train()
    before = modes(model)
    with pytest.raises(stop or AssertionError), evaluation_mode(model):
        assert not any(modes(model))
        raise stop or AssertionError
    assert modes(model) == before == [True, True, True, False, False, True]

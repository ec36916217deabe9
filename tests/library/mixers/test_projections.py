"""Maps before and after a mixer, for mixers of three signals and of one."""

from functools import partial

import pytest
import torch
from torch import nn

from residual_edu.mixers import Attention, QKVConditionMixer, QKVSequenceMixer

GRIDS = [(6,), (2, 3)]
PLAIN = partial(Attention, 12, 2, apply_qk_norm=False, use_rope=False)


class Average(nn.Module):
    """A mixer of one signal: each position becomes the mean of all."""

    def forward(self, x, *, conditioning=None):
        return x.flatten(1, -2).mean(1).view(len(x), *[1] * (x.ndim - 2), -1).expand(x.shape)


class Gate(nn.Module):
    """A mixer of three signals whose output shows what it was given."""

    def forward(self, query, key, value, *, conditioning=None):
        return query * key + value + (0 if conditioning is None else conditioning[:, None])


def signal(*space, batch=2):
    return torch.randn(batch, *space, 12, dtype=torch.float64)


def test_one_signal_for_a_mixer_of_one_and_a_condition_goes_on_to_the_mixer():
    mixer, x = QKVSequenceMixer(12, Average).double(), signal(6)
    assert list(mixer.state_dict()) == ["qkv_proj.weight", "out_proj.weight"] and mixer.signals == 1
    mean = (x @ mixer.qkv_proj.weight.T).mean(1, keepdim=True) @ mixer.out_proj.weight.T
    torch.testing.assert_close(mixer(x), mean.expand(x.shape), rtol=1e-11, atol=1e-11)
    mixer = QKVSequenceMixer(12, Gate).double()
    assert mixer.signals == 3 and not torch.allclose(mixer(x, conditioning=torch.ones(2, 12).double()), mixer(x))


def test_an_init_fills_weights_and_empties_biases():
    seen = []

    def init(width):
        seen.append(width)
        return nn.init.ones_

    mixer = QKVSequenceMixer(12, PLAIN, True, True, init_method_in=init, init_method_out=init)
    assert seen == [12, 12] and all((w == ("weight" in name)).all() for name, w in mixer.state_dict().items())
    cross = QKVConditionMixer(12, PLAIN, init_method_in=init, init_method_out=init)
    assert seen == [12] * 5 and all((weight == 1).all() for weight in cross.parameters())


@pytest.mark.parametrize("elsewhere", [(), (5,), (2, 1, 3)])
@pytest.mark.parametrize("samples", [1, 2])
def test_each_position_attends_to_the_condition(elsewhere, samples):
    mixer = QKVConditionMixer(12, PLAIN).double()
    x, condition = signal(2, 3), torch.randn(samples, *elsewhere, 12, dtype=torch.float64)
    state = mixer.state_dict()
    assert list(state) == ["kv_proj.weight", "q_proj.weight", "out_proj.weight"]
    flat = condition.reshape(samples, -1, 12).expand(2, -1, -1)
    key, value = (flat @ weight.T for weight in state["kv_proj.weight"].chunk(2))
    query = x.flatten(1, -2) @ state["q_proj.weight"].T
    expected = PLAIN()(query, key, value) @ state["out_proj.weight"].T
    torch.testing.assert_close(mixer(x, condition), expected.view(x.shape), rtol=1e-11, atol=1e-11)

"""Each fault is the one line that it says it is, and all else is the block."""

import pytest
import torch
from torch import nn

from residual_course.explorers.faulty_block import LAST_LINE, PATIENTS, FaultyBlock
from residual_edu import MLP, LayerNorm, LazyConfig, ResidualBlock

pytestmark = pytest.mark.usefixtures("as_installed")

NORM = LazyConfig(LayerNorm)(dim=4)


class Listener(nn.Module):
    def forward(self, x, condition):
        return x * condition[:, None]


class Halve(nn.Module):
    """Stands in for dropout: what it touches can be seen."""

    def forward(self, x):
        return x / 2


def parts(**changes):
    return {
        "sequence_mixer_cfg": LazyConfig(nn.Linear)(in_features=4, out_features=4),
        "sequence_mixer_norm_cfg": NORM,
        "condition_mixer_cfg": Listener,
        "condition_mixer_norm_cfg": NORM,
        "mlp_cfg": LazyConfig(MLP)(dim=4, activation="gelu", dropout_cfg=nn.Identity),
        "mlp_norm_cfg": NORM,
        "dropout_cfg": Halve,
    } | changes


@pytest.mark.parametrize("fault", LAST_LINE)
def test_values(fault):
    made = FaultyBlock(fault, **parts()).double()
    x, c = torch.randn(2, 3, 4).double(), torch.randn(2, 4).double()
    block = made.block
    h = x + block.sequence_mixer(block.input_norm(x)) / 2
    h = h + block.condition_mixer(block.condition_mixer_norm(h), c) / 2
    n = block.mlp_norm(h)
    expected = {
        "none": h + block.mlp(n) / 2,
        "no skip": block.mlp(n) / 2,
        "norm on the stream": n + block.mlp(n) / 2,
        "mixer for MLP": h + block.sequence_mixer(n) / 2,
        "dropout on the stream": (h + block.mlp(n)) / 2,
    }
    torch.testing.assert_close(made(x, c), expected[fault])


def test_without_a_fault_it_is_the_block():
    made = FaultyBlock("none", **parts())
    whole = ResidualBlock(**parts())
    whole.load_state_dict(made.block.state_dict())
    x, c = torch.randn(2, 3, 4), torch.randn(2, 4)
    torch.testing.assert_close(made(x, c), whole(x, c))


@pytest.mark.parametrize("fault", LAST_LINE)
def test_without_an_mlp_every_copy_is_healthy(fault):
    made = FaultyBlock(fault, **parts(mlp_cfg=nn.Identity, mlp_norm_cfg=nn.Identity))
    x, c = torch.randn(2, 3, 4), torch.randn(2, 4)
    torch.testing.assert_close(made(x, c), made.block(x, c))


def test_four_patients_have_the_four_faults():
    assert sorted(PATIENTS.values()) == sorted(set(LAST_LINE) - {"none"}) and list(PATIENTS) == list("ABCD")
    assert [FaultyBlock(letter, **parts()).fault for letter in PATIENTS] == list(PATIENTS.values())

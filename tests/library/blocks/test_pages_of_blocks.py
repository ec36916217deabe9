"""What the pages of ResidualBlock and AdaLNZeroResidualBlock say and no other test shows."""

import copy
import inspect
from functools import partial

import pytest
import torch
from torch import nn

from residual_edu import (
    MLP,
    AdaLNZeroResidualBlock,
    Attention,
    DropPath,
    LayerNorm,
    LazyConfig,
    QKVConditionMixer,
    ResidualBlock,
    blocks,
    parameter_groups,
)

C = 6
OFF, NORM = nn.Identity, LazyConfig(LayerNorm)(dim=C)
FEED_FORWARD = LazyConfig(MLP)(dim=C, activation="gelu", dropout_cfg=OFF)
CROSS = partial(QKVConditionMixer, C, partial(Attention, C, 2, apply_qk_norm=False, use_rope=False))


class Table(nn.Module):
    """A norm whose gain is no vector, so that only the block's mark spares it."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.ones(1, C))

    def forward(self, x):
        return x * self.table.sum(0)


class Listener(nn.Module):
    """A mixer that returns what it is told, and keeps it."""

    def forward(self, x, *, conditioning):
        self.heard = conditioning
        return conditioning.view(len(conditioning), *[1] * (x.ndim - 2), C).expand(x.shape)


def residual_block(mixer=OFF, cross=OFF, mlp=OFF, dropout=OFF):
    pairs = [part for layer in (mixer, cross, mlp) for part in (layer, OFF if layer is OFF else NORM)]
    return ResidualBlock(*pairs, dropout)


def adaln_zero_block(mixer=OFF, norm=NORM, dropout=OFF):
    return AdaLNZeroResidualBlock(mixer, norm, FEED_FORWARD, norm, norm, dropout, C)


def open_gates(made):
    nn.init.normal_(made.condition_proj[1].weight)
    return made


ARGUMENTS = {
    ResidualBlock: "sequence_mixer sequence_mixer_norm condition_mixer condition_mixer_norm mlp mlp_norm dropout",
    AdaLNZeroResidualBlock: "sequence_mixer sequence_mixer_norm mlp mlp_norm condition_norm dropout",
}


@pytest.mark.parametrize("block", ARGUMENTS)
def test_arguments_have_the_pages_names_and_order(block):
    names = [f"{name}_cfg" for name in ARGUMENTS[block].split()]
    names += ["hidden_dim"] if block is AdaLNZeroResidualBlock else []
    arguments = inspect.signature(block).parameters
    assert list(arguments) == names and all(each.default is each.empty for each in arguments.values())


@pytest.mark.parametrize("block", ARGUMENTS)
def test_arguments_of_forward(block):
    arguments = inspect.signature(block.forward).parameters
    assert list(arguments) == ["self", "x", "condition"]
    assert all(each.default is each.empty for each in arguments.values())


@pytest.mark.parametrize("name", blocks.__all__)
def test_no_block_inherits_from_another(name):
    assert getattr(blocks, name).__bases__ == (nn.Module,)


def test_the_condition_mixer_hears_the_normed_stream():
    class Keeper(nn.Module):
        def forward(self, x, condition):
            self.heard = x
            return x

    made, x = residual_block(mixer=partial(nn.Linear, C, C), cross=Keeper), torch.randn(2, 5, C)
    made(x, torch.zeros(2, C))
    after_mixer = x + made.sequence_mixer(made.input_norm(x))
    torch.testing.assert_close(made.condition_mixer.heard, made.condition_mixer_norm(after_mixer))


def test_the_mlp_maps_each_position_by_itself():
    made, x = residual_block(mlp=FEED_FORWARD), torch.randn(2, 5, C)
    torch.testing.assert_close(made(x, None), torch.stack([made(one, None) for one in x.unbind(1)], 1))


@pytest.mark.parametrize("dropout", [partial(nn.Dropout, 0.5), partial(DropPath, 0.5), OFF])
def test_typical_dropouts(dropout):
    made, x = residual_block(mlp=FEED_FORWARD, dropout=dropout), torch.randn(200, 5, C)
    dropped = (made(x, None) == x).float().mean()  # where a branch is dropped the stream stays, number by number
    assert dropped == pytest.approx(0 if dropout is OFF else 0.5, abs=0.15)
    torch.testing.assert_close(made.eval()(x, None), x + made.mlp(made.mlp_norm(x)))


@pytest.mark.parametrize(
    "norm",
    [
        NORM,
        lambda: LayerNorm(C),
        partial(LayerNorm, C),
        {"__target__": "residual_edu.LayerNorm", "dim": C},
        LayerNorm(C),
    ],
)
def test_a_part_may_be_described_in_many_ways(norm):
    made = ResidualBlock(OFF, OFF, OFF, OFF, FEED_FORWARD, norm, OFF)
    assert isinstance(made.mlp_norm, LayerNorm) and made.mlp_norm.dim == C


@pytest.mark.parametrize("elsewhere", [(), (7,), (2, 3), (1, 2, 3)])
@pytest.mark.parametrize("space", [(5,), (2, 3), (2, 1, 3)])
def test_cross_attention_to_a_condition_of_any_layout(space, elsewhere):
    made, x = residual_block(cross=CROSS), torch.randn(2, *space, C)
    condition = torch.randn(2, *elsewhere, C, requires_grad=True)
    y = made(x, condition)
    assert y.shape == x.shape
    y.sum().backward()
    assert condition.grad.flatten(1).any(1).all()


def test_a_condition_that_nobody_hears_may_be_anything():
    made, x = residual_block(mlp=FEED_FORWARD), torch.randn(2, 5, C)
    assert all(made(x, condition).equal(made(x, None)) for condition in (torch.zeros(9), torch.ones(3, 4).long()))


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize("kind", [AssertionError, ValueError])
def test_a_missing_condition_is_refused_as_either_page_promises(kind):
    for made in (residual_block(cross=CROSS), adaln_zero_block()):
        with pytest.raises(kind, match="^condition must be given"):
            made(torch.zeros(2, 5, C), None)


@pytest.mark.parametrize("way", ["the modulations", "conditioning="])
def test_the_condition_has_two_ways_in(way):
    made, c = open_gates(adaln_zero_block(mixer=Listener)), torch.randn(2, C, requires_grad=True)
    if way == "the modulations":  # the mixer is told, but what it says does not come from there
        made.sequence_mixer.register_forward_hook(lambda mixer, args, y: y.detach())
    else:  # the gates stand open, whatever the condition
        nn.init.zeros_(made.condition_proj[1].weight)
        nn.init.ones_(made.condition_proj[1].bias)
    made(torch.randn(2, 5, C), c).sum().backward()
    assert c.grad.any(1).all()


def test_dropout_comes_before_the_gate():
    class Keeper(nn.Module):
        def forward(self, branch):
            self.heard = branch
            return branch

    made, x = adaln_zero_block(dropout=Keeper), torch.randn(2, 5, C)
    made(x, torch.randn(2, C))
    torch.testing.assert_close(made.dropout.heard, made.mlp(made.mlp_norm(x)))  # the gate is shut, and this is not 0


@pytest.mark.parametrize("space", [(5,), (2, 3), (2, 2, 3)])
def test_a_gate_is_one_number_for_all_positions(space):
    made, c = open_gates(adaln_zero_block(mixer=Listener)), torch.randn(2, C)
    made.mlp = nn.Identity()
    x = torch.randn(2, *space, C)
    shift, scale, gate, *_ = made.condition_proj(made.condition_norm(c)).chunk(6, dim=-1)
    opened = ((made(x, c) - x) / made.condition_norm(c).view(2, *[1] * len(space), C)).flatten(1, -2)
    torch.testing.assert_close(opened, gate[:, None].expand_as(opened), rtol=1e-3, atol=1e-3)


def test_the_condition_may_go_without_a_norm():
    made, c = AdaLNZeroResidualBlock(Listener, NORM, OFF, OFF, OFF, OFF, C), torch.randn(2, C)
    made(torch.randn(2, 5, C), c)
    assert made.sequence_mixer.heard.equal(c)


@pytest.mark.parametrize("copied", [lambda made: made, copy.deepcopy])
def test_norms_under_adaln_zero_are_spared_by_weight_decay_also_in_a_copy(copied):
    made = copied(adaln_zero_block(Listener, norm=Table))
    spared = {id(p) for p in parameter_groups(made, 0.1)[1]["params"]}
    tables = {name: id(p) in spared for name, p in made.named_parameters() if "table" in name}
    assert tables == dict.fromkeys(["sequence_norm.table", "mlp_norm.table", "condition_norm.table"], True)


def test_the_projection_by_name_and_size():
    silu, projection = adaln_zero_block().condition_proj
    assert isinstance(silu, nn.SiLU) and isinstance(projection, nn.Linear)
    assert projection.weight.shape == (6 * C, C) and not projection.weight.any() and not projection.bias.any()

"""What the page of ViT5ResidualBlock says and no other test shows."""

import copy
import inspect
from functools import partial

import pytest
import torch
from torch import nn

from residual_edu import (
    MLP,
    GlobalResponseNorm,
    InvalidInput,
    LazyConfig,
    RegisterPooling,
    ResidualBlock,
    RMSNorm,
    ViT5Attention,
    ViT5ClassificationNet,
    ViT5HyenaAdapter,
    ViT5ResidualBlock,
    parameter_groups,
)

pytestmark = pytest.mark.usefixtures("as_installed")

C, R, PATCHES = 8, 4, 6
NORM = LazyConfig(RMSNorm)(dim=C)
ATTENTION = LazyConfig(ViT5Attention)(hidden_dim=C, num_heads=2, num_patches_h=2, num_patches_w=3, num_registers=R)
FEED_FORWARD = LazyConfig(MLP)(dim=C, activation="gelu", dropout_cfg=nn.Identity)


class Keeper(nn.Module):
    """Returns what it hears, and keeps it."""

    def forward(self, x, *, conditioning=None):
        self.x, self.conditioning = x, conditioning
        return x


def block(mixer=ATTENTION, norm=NORM, **changes):
    return ViT5ResidualBlock(mixer, norm, FEED_FORWARD, norm, C, **changes)


def test_arguments_defaults_and_order():
    arguments = inspect.signature(ViT5ResidualBlock).parameters
    required = ["sequence_mixer_cfg", "sequence_mixer_norm_cfg", "mlp_cfg", "mlp_norm_cfg", "hidden_dim"]
    defaults = {
        "layer_scale_init": 1e-4,
        "drop_path_rate": 0.0,
        "register_pooling_cfg": None,
        "num_registers": 0,
        "register_start_idx": 1,
        "grn_cfg": None,
    }
    assert list(arguments) == [*required, *defaults]
    assert {name: arguments[name].default for name in defaults} == defaults
    assert all(arguments[name].default is inspect.Parameter.empty for name in required)


def test_arguments_of_forward_and_flop_count():
    forward, count = (
        inspect.signature(f).parameters for f in (ViT5ResidualBlock.forward, ViT5ResidualBlock.flop_count)
    )
    assert list(forward) == ["self", "x", "condition"] and forward["condition"].default is None
    assert list(count) == ["self", "num_tokens", "inference"] and count["inference"].default is False


def test_it_has_no_condition_mixer():
    names, generic = (dict(made.named_children()) for made in (block(), ResidualBlock(*[nn.Identity] * 7)))
    assert not [name for name in names if "condition" in name] and "condition_mixer" in generic


def test_grn_stands_between_the_mixer_and_its_gate():
    made, x = block(Keeper, grn_cfg=partial(GlobalResponseNorm, C), layer_scale_init=0.5), torch.randn(2, 11, C)
    nn.init.normal_(made.grn.gamma)
    made.mlp = nn.Identity()
    torch.testing.assert_close(made(x), x + 0.5 * made.grn(made.input_norm(x)))


def test_each_branch_has_its_own_gates_of_the_width_of_the_stream():
    made = block(layer_scale_init=0.25)
    assert made.ls_attn is not made.ls_mlp
    assert made.ls_attn.gamma.tolist() == made.ls_mlp.gamma.tolist() == [0.25] * C


@pytest.mark.parametrize("copied", [lambda made: made, copy.deepcopy])
def test_norms_are_spared_by_weight_decay_also_in_a_copy(copied):
    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.ones(1, C))

    made = copied(block(norm=Table))
    spared = {id(p) for p in parameter_groups(made, 0.1)[1]["params"]}
    assert all(id(made.get_parameter(f"{name}.table")) in spared for name in ("input_norm", "mlp_norm"))
    assert id(made.ls_attn.gamma) in spared and id(made.mlp.layer1.weight) not in spared


@pytest.mark.parametrize("mixer", [ATTENTION, partial(ViT5HyenaAdapter, Keeper, 3)])
def test_typical_mixers_take_the_pooled_registers_and_only_one_has_a_use_for_them(mixer):
    pooling = partial(RegisterPooling, R)
    made = block(mixer, register_pooling_cfg=pooling, num_registers=R, register_start_idx=PATCHES + 1)
    x = torch.randn(2, PATCHES + 1 + R + (mixer is not ATTENTION), C)  # rows of three want one token of padding
    assert made(x).shape == x.shape
    if mixer is not ATTENTION:
        pooled = made.input_norm(x)[:, PATCHES + 1 : PATCHES + 1 + R].mean(1)
        torch.testing.assert_close(made.sequence_mixer.inner_mixer.conditioning, pooled)


def test_the_default_start_fits_another_layout_than_the_pages():
    made = block(Keeper, register_pooling_cfg=partial(RegisterPooling, R), num_registers=R)
    x = torch.randn(2, PATCHES + 1 + R, C)
    made(x)
    torch.testing.assert_close(made.sequence_mixer.conditioning, made.input_norm(x)[:, 1 : 1 + R].mean(1))


@pytest.mark.parametrize("readout, before", [("cls", PATCHES + 1), ("gap", PATCHES)])
def test_where_the_registers_begin(readout, before):
    cfg = LazyConfig(ViT5ResidualBlock)(
        sequence_mixer_cfg=nn.Identity,
        sequence_mixer_norm_cfg=NORM,
        mlp_cfg=FEED_FORWARD,
        mlp_norm_cfg=NORM,
        hidden_dim=C,
    )
    net = ViT5ClassificationNet(1, 2, C, 1, 1, 2, R, cfg, NORM, readout)  # 2 by 2 patches
    assert net.blocks[0].register_start_idx == before - PATCHES + 4


def test_attention_refuses_a_sequence_that_is_padded():
    with pytest.raises(InvalidInput, match=r"^x must be floating point of shape \(batch, 11, channels\)"):
        block()(torch.zeros(2, 12, C))


def test_the_cost_of_padding_is_counted():
    made = block(partial(ViT5HyenaAdapter, Keeper, 3))
    per_token = made.flop_count(3) // 3
    assert made.flop_count(12) == 12 * per_token


def test_the_two_sums_are_not_counted():
    assert ViT5ResidualBlock(Keeper, nn.Identity, nn.LeakyReLU, nn.Identity, C, 0).flop_count(11) == 0

"""Input that once gave a wrong answer without a word: here each gives the right one, by another way, or a sentence."""

import copy
import re

import pytest
import torch
from torch import nn

from residual_edu import (
    AdaLNZeroResidualBlock,
    BlockConfig,
    ConfigurableBlock,
    GaussianModulation,
    InvalidInput,
    L2Norm,
    LayerScale,
    Modulation,
    Registry,
    ResidualBlock,
    attention,
    attention_registry,
    fused_attention,
    no_weight_decay,
    parameter_groups,
    position_registry,
    post_norm_residual,
    pre_norm_residual,
)
from residual_edu.training import accuracy, train

pytestmark = pytest.mark.usefixtures("as_installed")
zeros = torch.zeros
KINDS = [{"attention": "mha"}, {"attention": "gqa", "n_kv_heads": 1}, {"attention": "mla", "kv_lora_rank": 4}]
KINDS += [{"attention": "sliding_window_gqa", "window_size": 3}, {"attention": "mha", "position": "alibi"}]


def config(**changes):
    return BlockConfig(**({"d_model": 8, "n_heads": 2, "d_ff": 12, "max_seq_len": 9, "position": "none"} | changes))


def masks(batch):
    """A mask for each sample, no two alike, in each row at least the query itself."""
    return (torch.rand(batch, 5, 5) > 0.5) | torch.eye(5, dtype=torch.bool)


@pytest.mark.parametrize("batch", [1, 2, 3])  # of 2 heads
@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_for_each_sample_is_that_of_the_sample_alone(kind, batch):
    block, x, mask = ConfigurableBlock(config(**kind)), torch.randn(batch, 5, 8), masks(batch)
    for layer in (block, block.attention):
        alone = torch.cat([layer(x[i : i + 1], mask[i])[0] for i in range(batch)])
        torch.testing.assert_close(layer(x, mask)[0], alone)
        torch.testing.assert_close(layer(x, mask[:, None])[0], alone)
        torch.testing.assert_close(layer(x, mask[:, None].expand(-1, 2, -1, -1))[0], alone)


@pytest.mark.parametrize("low", [-1e9, float("-inf"), torch.finfo(torch.float32).min])
@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_of_numbers_is_added_to_the_scores(kind, low):
    block, x, mask = ConfigurableBlock(config(**kind)), torch.randn(2, 5, 8), masks(2)
    for given in (mask, mask[0]):
        torch.testing.assert_close(block(x, zeros(given.shape).masked_fill(~given, low))[0], block(x, given)[0])


def test_a_mask_of_numbers_need_not_forbid():
    layer, x, added = attention_registry.get("mha")(config()), torch.randn(2, 5, 8), torch.randn(2, 5, 5)
    q, k, v = (each(x).view(2, 5, 2, 4).transpose(1, 2) for each in (layer.q_proj, layer.k_proj, layer.v_proj))
    mixed = (q @ k.mT / 2 + added[:, None]).softmax(-1) @ v
    torch.testing.assert_close(layer(x, added)[0], layer.o_proj(mixed.transpose(1, 2).flatten(2)))


@pytest.mark.parametrize("position", ["none", "sinusoidal", "alibi", "rope"])
def test_mla_rotates_where_rope_dim_is_above_0(position):
    """The score of two positions depends on their places, also where the position encoding itself rotates nothing."""
    layer = attention_registry.get("mla")(config(attention="mla", kv_lora_rank=4, rope_dim=2, position=position))
    x = torch.randn(1, 1, 2).expand(1, 6, 2)
    turned = layer.turn(x, 0)[0].detach()
    angle = torch.arange(6.0)
    want = torch.stack(
        [x[0, 0, 0] * angle.cos() - x[0, 0, 1] * angle.sin(), x[0, 0, 0] * angle.sin() + x[0, 0, 1] * angle.cos()], -1
    )
    torch.testing.assert_close(turned, want)


def test_no_attention_keeps_the_contract():
    layer, x = attention_registry.get("none")(config()), torch.randn(2, 3, 8)
    y, cache = layer(x, torch.ones(3, 3, dtype=torch.bool), None)
    assert y is x and cache[0].shape == cache[1].shape == (2, 3, 0)
    assert layer(x, None, cache)[1][0].shape == (2, 6, 0)


def test_a_plain_module_is_no_position():
    class Plain(nn.Module):
        def __init__(self, config):
            super().__init__()

    position_registry.register("plain", Plain)
    try:
        for kind in ("mha", "none"):
            with pytest.raises(
                InvalidInput, match="^position 'plain' must have embed, rotate and bias, 'Plain' lacks "
            ):
                ConfigurableBlock(config(attention=kind, position="plain"))
    finally:
        del position_registry.entries["plain"]


@pytest.mark.parametrize("residual", [pre_norm_residual, post_norm_residual])
@pytest.mark.parametrize("gate", [lambda b: b[..., :1], lambda b: b[None], lambda b: b[:1], lambda b: (b,)])
def test_a_gate_keeps_the_shape(residual, gate):
    with pytest.raises(InvalidInput, match="^a gate must (keep|return)"):
        residual(zeros(2, 5, 4), nn.Linear(4, 4), nn.LayerNorm(4), [gate])


class Narrow(nn.Module):
    def forward(self, b):
        return b[..., :1]


def test_blocks_refuse_a_gate_that_narrows():
    off, mlp = nn.Identity, lambda: nn.Linear(4, 4)
    with pytest.raises(InvalidInput, match="^a gate must keep the shape of x"):
        ResidualBlock(off, off, off, off, mlp, off, Narrow)(zeros(2, 5, 4), None)
    with pytest.raises(InvalidInput, match="^branch must have 4 features"):
        AdaLNZeroResidualBlock(off, off, mlp, off, off, Narrow, 4)(zeros(2, 5, 4), zeros(2, 4))
    with pytest.raises(InvalidInput, match="^branch must have 1 features"):
        Modulation(*zeros(3, 2, 1, 1)).apply_gate(zeros(2, 5, 4))


@pytest.mark.parametrize("which", [attention, fused_attention])
def test_what_attention_was_given_and_did_not_read(which):
    q, k = zeros(2, 5, 4), zeros(2, 4, 4)
    with pytest.raises(InvalidInput, match="^value must have key's 4 positions"):
        which(q, k, q)
    with pytest.raises(InvalidInput, match="^bias must be floating point"):
        which(q, q, q, bias=torch.ones(5, 5, dtype=torch.bool))
    with pytest.raises(InvalidInput, match="^key must have axes of 1"):
        which(q[:1], k, k)


@pytest.mark.parametrize("dropout", [1.0, float("nan"), True])
def test_a_rate_of_dropped_weights(dropout):
    with pytest.raises(InvalidInput, match="^dropout must "):
        fused_attention(*zeros(3, 2, 5, 4), dropout=dropout)


@pytest.mark.parametrize("change", [{"init_std_high": 1e39}, {"init_std_low": 1e-46}])
@pytest.mark.parametrize("kind", ["direct", "log", "softplus"])
def test_a_mask_starts_with_finite_widths(kind, change):
    assert GaussianModulation(1, 4, init_std_high=100, parametrization=kind).std.isfinite().all()
    with pytest.raises(InvalidInput, match="^init_std_low and init_std_high must be within float32's range"):
        GaussianModulation(1, 4, parametrization=kind, **change)


def test_marks_stand_on_parameters_and_survive_a_deep_copy():
    model = nn.Sequential(nn.Linear(2, 2), no_weight_decay(nn.Sequential(nn.Linear(2, 2))))
    theirs = nn.Sequential(nn.Linear(2, 2))
    theirs[0].weight._no_weight_decay = True  # as the origin marks
    for made in (model, copy.deepcopy(model), copy.deepcopy(copy.deepcopy(model))):
        marks = [getattr(each, "_no_weight_decay", False) for each in made.parameters()]
        assert marks == [False, False, True, True]
        assert [len(group["params"]) for group in parameter_groups(made, 0.1)] == [1, 3]
    assert not {*map(id, model.parameters())} & {*map(id, copy.deepcopy(model).parameters())}
    assert parameter_groups(theirs, 0.1)[0]["params"] == []
    for wrong in (nn.Linear, nn.Parameter(zeros(2))):
        with pytest.raises(InvalidInput, match="^module must be a Module"):
            no_weight_decay(wrong)


def test_a_module_is_no_class_to_register():
    with pytest.raises(InvalidInput, match="must be a class that takes a BlockConfig, got "):
        Registry("x").register("a", nn.Linear(2, 2))


def test_accuracy_counts_classes_alone():
    model, x = nn.Linear(2, 3), zeros(4, 2)
    nn.init.constant_(model.bias, float("nan"))
    assert accuracy(model, x, zeros(4, dtype=torch.long)) == 0.0  # argmax gives the place of a NaN
    for labels in (zeros(4), torch.full((4,), 3)):
        with pytest.raises(InvalidInput, match="^labels must be whole numbers from 0 to 2"):
            accuracy(model, x, labels)
    with pytest.raises(InvalidInput, match="^labels must have no empty axis"):
        accuracy(model, x[:0], zeros(0, dtype=torch.long))


@pytest.mark.parametrize(
    ("loss", "batch", "words"),
    [
        (lambda x: x, (zeros(2),), "loss must have shape ()"),
        (lambda *x: x[0].sum(), zeros(2, 3), "batches must be tuples of tensors, got a Tensor"),
    ],
)
def test_a_batch_is_a_tuple_and_a_loss_one_number(loss, batch, words):
    weight = nn.Parameter(zeros(2))
    with pytest.raises(InvalidInput, match=f"^{re.escape(words)}"):
        train(lambda *x: loss(*x) * weight.sum(), [batch], torch.optim.SGD([weight], lr=0.1), 1)


def test_an_axis_to_normalise_is_one_of_the_input():
    with pytest.raises(InvalidInput, match="^dim must be an axis of x, got 2"):
        L2Norm(2)(zeros(2, 3))
    with pytest.raises(InvalidInput, match="^x must be on cpu, got meta"):
        LayerScale(3)(zeros(2, 3, device="meta"))

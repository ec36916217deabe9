"""Input that once gave a wrong answer without a word: here each gives the right one, by another way, or a sentence."""

import copy

import pytest
import torch
from torch import nn

import residual_edu as library
from residual_course.training import accuracy
from residual_edu import InvalidInput

pytestmark = pytest.mark.usefixtures("as_installed")
zeros = torch.zeros
KINDS = [{"attention": "mha"}, {"attention": "gqa", "n_kv_heads": 1}, {"attention": "mla", "kv_lora_rank": 4}]
KINDS += [{"attention": "sliding_window_gqa", "window_size": 3}, {"attention": "mha", "position": "alibi"}]


def config(**changes):
    return library.BlockConfig(
        **({"d_model": 8, "n_heads": 2, "d_ff": 12, "max_seq_len": 9, "position": "none"} | changes)
    )


def masks(batch):
    """A mask for each sample, no two alike, in each row at least the query itself."""
    return (torch.rand(batch, 5, 5) > 0.5) | torch.eye(5, dtype=torch.bool)


@pytest.mark.parametrize("batch", [2, 3])  # of 2 heads
@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_for_each_sample_is_that_of_the_sample_alone(kind, batch):
    block, x, mask = library.ConfigurableBlock(config(**kind)), torch.randn(batch, 5, 8), masks(batch)
    for layer in (block, block.attention):
        alone = torch.cat([layer(x[i : i + 1], mask[i])[0] for i in range(batch)])
        torch.testing.assert_close(layer(x, mask)[0], alone)
        torch.testing.assert_close(layer(x, mask[:, None])[0], alone)
        torch.testing.assert_close(layer(x, mask[:, None].expand(-1, 2, -1, -1))[0], alone)


@pytest.mark.parametrize("low", [-1e9, None])
@pytest.mark.parametrize("kind", KINDS)
def test_a_query_without_a_key_adds_nothing(kind, low, compiled):
    layer, x, mask = library.ConfigurableBlock(config(bias=False, **kind)).attention, torch.randn(2, 5, 8), masks(2)
    mask[:, 3] = False
    given = mask if low is None else zeros(mask.shape).masked_fill(~mask, low)
    found = layer(x, given)[0]
    assert not found[:, 3].any() and found[:, 4].any()
    torch.testing.assert_close(compiled(layer)(x, given)[0], found)


def test_a_mask_of_numbers_need_not_forbid():
    layer, x, added = library.attention_registry.get("mha")(config()), torch.randn(2, 5, 8), torch.randn(2, 5, 5)
    q, k, v = (each(x).view(2, 5, 2, 4).transpose(1, 2) for each in (layer.q_proj, layer.k_proj, layer.v_proj))
    mixed = (q @ k.mT / 2 + added[:, None]).softmax(-1) @ v
    torch.testing.assert_close(layer(x, added)[0], layer.o_proj(mixed.transpose(1, 2).flatten(2)))


class Narrow(nn.Module):
    def forward(self, b):
        return b[..., :1]


def test_blocks_refuse_a_gate_that_narrows():
    off, mlp = nn.Identity, lambda: nn.Linear(4, 4)
    for residual in (library.pre_norm_residual, library.post_norm_residual):
        with pytest.raises(InvalidInput, match="^a gate must have the shape of x"):
            residual(zeros(2, 5, 4), mlp(), nn.LayerNorm(4), [Narrow()])
    with pytest.raises(InvalidInput, match="^a gate must have the shape of x"):
        library.ResidualBlock(off, off, off, off, mlp, off, Narrow)(zeros(2, 5, 4), None)
    with pytest.raises(InvalidInput, match="^a gate must have the shape of x"):
        library.AdaLNZeroResidualBlock(off, off, mlp, off, off, Narrow, 4)(zeros(2, 5, 4), zeros(2, 4))
    with pytest.raises(InvalidInput, match=r"^branch must be floating point of shape \(..., 1\)"):
        library.Modulation(*zeros(3, 2, 1, 1)).apply_gate(zeros(2, 5, 4))


@pytest.mark.parametrize("which", [library.attention, library.fused_attention])
def test_what_attention_was_given_and_did_not_read(which):
    q, k = zeros(2, 5, 4), zeros(2, 4, 4)
    with pytest.raises(InvalidInput, match="^value must have key's 4 positions"):
        which(q, k, q)
    with pytest.raises(InvalidInput, match="^bias must be floating point"):
        which(q, q, q, bias=torch.ones(5, 5, dtype=torch.bool))
    with pytest.raises(InvalidInput, match="^query must be on cpu, got meta"):
        which(q.to("meta"), q, q)
    with pytest.raises(RuntimeError, match="^The expanded size of the tensor"):
        which(q[:1], k, k)


@pytest.mark.parametrize("dropout", [1.0, float("nan"), True])
def test_a_rate_of_dropped_weights(dropout):
    with pytest.raises(InvalidInput, match="^dropout must "):
        library.fused_attention(*zeros(3, 2, 5, 4), dropout=dropout)


@pytest.mark.parametrize("change", [{"init_std_high": 1e39}, {"init_std_low": 1e-46}])
@pytest.mark.parametrize("kind", ["direct", "log", "softplus"])
def test_a_mask_starts_with_finite_widths(kind, change):
    assert library.GaussianModulation(1, 4, init_std_high=100, parametrization=kind).std.isfinite().all()
    with pytest.raises(InvalidInput, match="^min_std and init_std must be float32 above 0"):
        library.GaussianModulation(1, 4, parametrization=kind, **change)


def test_marks_survive_a_deep_copy_and_a_class_gets_none():
    model = nn.Sequential(nn.Linear(2, 2), library.no_weight_decay(nn.Sequential(nn.Linear(2, 2))))
    theirs = nn.Sequential(nn.Linear(2, 2))
    theirs[0].weight._no_weight_decay = True  # as the origin marks
    assert [hasattr(each, "_no_weight_decay") for each in model.parameters()] == [False, False, True, True]
    for made in (model, copy.deepcopy(model), copy.deepcopy(copy.deepcopy(model))):
        assert [len(group["params"]) for group in library.parameter_groups(made, 0.1)] == [1, 3]
    assert library.parameter_groups(theirs, 0.1)[0]["params"] == []
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        library.no_weight_decay(nn.Linear)  # or every linear map would be exempt
    assert not hasattr(nn.Linear, "_no_weight_decay")


def test_accuracy_counts_classes_alone():
    model, x = nn.Linear(2, 3), zeros(4, 2)
    nn.init.constant_(model.bias, float("nan"))
    assert accuracy(model, x, zeros(4, dtype=torch.long)) == 0.0  # argmax gives the place of a NaN
    for labels in (zeros(4), torch.full((4,), 3)):
        with pytest.raises(InvalidInput, match="^labels must be whole numbers from 0 to 2"):
            accuracy(model, x, labels)
    with pytest.raises(InvalidInput, match="^labels must be whole numbers from 0 to 2"):
        accuracy(model, x[:0], zeros(0, dtype=torch.long))

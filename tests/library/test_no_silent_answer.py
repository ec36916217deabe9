"""Input that once gave a wrong answer without a word: here each gives the right one, by another way, or a sentence."""

import copy
from functools import partial

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


C, OFF = 6, nn.Identity
NORM, MAP = partial(library.LayerNorm, C), partial(library.MLP, C, "relu", OFF)
ATTENTION = partial(library.Attention, C, 2, apply_qk_norm=False, use_rope=False)
MIXER, CROSS = partial(library.QKVSequenceMixer, C, ATTENTION), partial(library.QKVConditionMixer, C, ATTENTION)
KERNEL = partial(library.SIRENKernel, C, 1, 4, 2, 4, 1.0, use_bias=True)
CONV = partial(library.CKConv, 1, C, partial(KERNEL, L_cache=8), OFF)
WIDE = partial(nn.Linear, C, 1)
X, CONDITION = zeros(2, 5, C), zeros(2, C)


def block(mixer=OFF, cross=OFF, mlp=OFF):
    layers = [(layer, OFF if layer is OFF else NORM) for layer in (mixer, cross, mlp)]
    return library.ResidualBlock(*[part for pair in layers for part in pair], OFF)


def adaln(mixer=OFF, mlp=OFF, hidden_dim=C):
    return library.AdaLNZeroResidualBlock(mixer, NORM, mlp, NORM, OFF, OFF, hidden_dim)


POOLING = partial(library.RegisterPooling, 4)


class Hearing(nn.Module):
    def forward(self, x, *, conditioning):
        return x * conditioning[:, None]


def vit5(mixer=MIXER, **changes):
    return library.ViT5ResidualBlock(mixer, NORM, MAP, NORM, C, **changes)


def network(kind=library.ResidualNetwork):
    blocks = {"block_cfg": partial(block, mlp=MAP), "dropout_in_cfg": OFF}
    made = kind(3, 4, 2, C, 2, nn.Linear, nn.Linear, NORM, **blocks, target_size=5)
    return made({"input": zeros(2, 4, 5, 3), "condition": None})


NO_ANSWER = {
    "a norm beside a layer that is left out": lambda: library.ResidualBlock(OFF, NORM, OFF, OFF, OFF, OFF, OFF),
    "a condition mixer without a condition": lambda: block(cross=CROSS)(X, None),
    "a branch that broadcasts": lambda: block(mlp=WIDE)(X, None),
    "a branch that broadcasts, in AdaLN": lambda: adaln(mlp=WIDE)(X, CONDITION),
    "a mixer that broadcasts": lambda: adaln(mixer=Narrow)(X, CONDITION),
    "a hidden_dim of 1 that broadcasts": lambda: adaln(hidden_dim=1)(X, zeros(2, 1)),
    "a condition without a batch": lambda: adaln()(X, zeros(C)),
    "a condition for other samples": lambda: adaln(mlp=MAP)(zeros(3, 5, C), CONDITION),
    "the mean of no positions": lambda: adaln()(X, zeros(2, 0, C)),
    "a condition for other samples, in cross-attention": lambda: CROSS()(zeros(3, 5, C), CONDITION),
    "a negative layer scale": lambda: vit5(layer_scale_init=-0.1),
    "a negative rate": lambda: vit5(drop_path_rate=-0.1),
    "a rate above 1": lambda: library.DropPath(1.5),
    "registers past the end": lambda: vit5(Hearing, register_pooling_cfg=POOLING, num_registers=4)(X[:, 1:]),
    "registers of another number": lambda: library.RegisterPooling(4)(zeros(2, 3, C)),
    "a gain that broadcasts": lambda: library.LayerScale(1)(X),
    "a norm that broadcasts": lambda: library.RMSNorm(1)(X),
    "a response norm that broadcasts": lambda: library.GlobalResponseNorm(1)(X),
    "a response norm without positions": lambda: library.GlobalResponseNorm(3)(zeros(2, 3)),
    "no hidden features": lambda: library.MLP(C, "relu", OFF, expansion_factor=0.1),
    "FiLM layers of another number": lambda: KERNEL(L_cache=8, film_cfg=partial(library.KernelFiLMGenerator, C, 4, 3)),
    "a signal shorter than a patch": lambda: library.Patchify(3, C, 1, 4)(zeros(2, 3, 3)),
    "positions of channels that do not divide": lambda: library.PositionEmbedding(8, 3, 4),
    "a signal longer than its positions": lambda: library.PositionEmbedding(C, 1, 4)(X),
    "heads that do not divide": lambda: library.Attention(C, 4, False, False),
    "tokens of another number": lambda: library.ViT5Attention(8, 2, 2, 2)(zeros(2, 5, 8)),
    "rows that are not full": lambda: library.ViT5HyenaAdapter(MIXER, 4)(zeros(2, 6, C)),
    "a circle of taps twice as long": lambda: CONV("double", "circular"),
    "a causal order in two dimensions": lambda: library.CKConv(
        2, C, partial(library.SIRENKernel, C, 2, 4, 2, 4, 1.0, 8, True), OFF, "double", "zero", is_causal=True
    ),
    "a kernel of another width": lambda: library.CKConv(1, 1, partial(KERNEL, L_cache=8), OFF, None, "zero")(
        X[..., :1]
    ),
    "a grid of one point": lambda: KERNEL(L_cache=1)([5]),
    "a mask without spread": lambda: library.GaussianModulation(1, C, min_std=0.0),
    "a target longer than the output": network,
    "the mean of a target longer than the output": lambda: network(library.ClassificationResNet),
}


@pytest.mark.parametrize("name", NO_ANSWER)
def test_there_is_no_answer(name):
    """Refused, or an error of torch's own at the same call."""
    with pytest.raises((InvalidInput, TypeError, IndexError, RuntimeError)):
        NO_ANSWER[name]()

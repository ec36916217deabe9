"""What ViT-5 mixes by: its attention, the adapter of two-axis mixers, registers.

Beside the block's transcription: tests/library/blocks/test_vit5_block.py.
"""

from functools import partial

import pytest
import torch
from torch import nn

from residual_edu import (
    CKConv,
    QKVSequenceMixer,
    RegisterCompressConcat,
    RegisterPooling,
    RMSNorm,
    SIRENKernel,
    ViT5Attention,
    ViT5HyenaAdapter,
    parameter_groups,
    rotary_cos_sin,
)
from tests.library.agree import agree

pytestmark = pytest.mark.usefixtures("as_installed")

SIZES = {"hidden_dim": 16, "num_heads": 2, "num_patches_h": 3, "num_patches_w": 4, "num_registers": 4}  # 17 tokens


def made(**changes):
    mixer = ViT5Attention(**(SIZES | changes)).double()
    for p in mixer.parameters():
        nn.init.normal_(p, std=0.3)
    return mixer


def tokens():
    return torch.randn(2, 17, 16, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("scale", [None, 0.1])
@pytest.mark.parametrize("bias", [False, True])
def test_without_angles_attention_is_torchs(bias, scale):
    mixer, x = made(qkv_bias=bias, out_proj_bias=bias, scale=scale), tokens()
    mixer.cos_sin.tables = rotary_cos_sin(torch.zeros(17, 4))
    theirs = nn.MultiheadAttention(16, 2, bias=bias, batch_first=True).double()
    theirs.in_proj_weight, theirs.in_proj_bias, theirs.out_proj = mixer.qkv.weight, mixer.qkv.bias, mixer.proj
    if scale is None:
        agree(mixer(x), theirs(x, x, x)[0], [x, *mixer.parameters()], 1e-12)
    q, k, v = mixer.heads(x)
    y = (q @ k.mT * (8**-0.5 if scale is None else scale)).softmax(-1) @ v
    torch.testing.assert_close(mixer(x), mixer.proj(y.transpose(1, 2).flatten(2)), rtol=1e-12, atol=1e-12)


def test_scores_depend_on_the_offset_between_two_patches_alone():
    mixer = made()
    q, k, _ = mixer.heads(torch.randn(1, 1, 16).double().expand(1, 17, 16))  # equal tokens, which differ in place only
    scores = (q @ k.mT)[0, :, :12, :12].unflatten(1, (3, 4)).unflatten(3, (3, 4))  # head, row, column, row, column
    torch.testing.assert_close(scores[:, 1:, 1:, 1:, 1:], scores[:, :-1, :-1, :-1, :-1], rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(scores[:, 0, 0, 2, 1], scores[:, 0, 2, 2, 3], rtol=1e-11, atol=1e-11)
    assert (scores[:, 0, 0, 0, 1] - scores[:, 0, 0, 1, 0]).abs().min() > 1e-6  # across is not down


def angles_of(mixer):
    cos, sin = mixer.cos_sin.tables
    return torch.atan2(sin, cos).chunk(2, dim=-1)[1]


def test_the_cls_token_is_not_rotated_and_the_registers_have_a_base_of_their_own():
    angles = angles_of(made())
    assert angles.shape == (17, 4) and not angles[12].any()
    expected = [[y, y / 10, x, x / 10] for y in range(2) for x in range(2)]  # base 100, two pairs an axis
    torch.testing.assert_close(angles[13:], torch.tensor(expected, dtype=torch.float64))
    assert not torch.equal(angles_of(made(reg_rope_base=50.0))[13:], angles[13:])


@pytest.mark.parametrize("count, side", [(0, 1), (1, 1), (2, 2), (4, 2), (5, 3)])
def test_any_number_of_registers_fills_its_grid_row_by_row(count, side):
    mixer = made(num_registers=count, has_cls=False)
    angles = angles_of(mixer)[12:].round(decimals=12)
    assert angles[:, ::2].tolist() == [[i // side, i % side] for i in range(count)]
    assert mixer(torch.randn(1, 12 + count, 16).double()).any()


@pytest.mark.parametrize("where", ["attn_dropout", "proj_dropout"])
def test_dropout_falls_in_training_only(where):
    mixer, x = made(**{where: 0.5}), tokens()
    assert not mixer(x).equal(mixer(x)) and mixer.eval()(x).equal(mixer(x))
    assert where == "attn_dropout" or (mixer.train()(x) == 0).double().mean().sub(0.5).abs() < 0.1


def test_the_keys_and_the_starts_of_attention():
    def fill(weight):
        weight.fill_(weight.shape[1])

    starts = {"init_fn_qkv_proj": fill, "init_fn_out_proj": fill}
    mixer = ViT5Attention(**SIZES, qk_norm=partial(RMSNorm, 8), qkv_bias=True, **starts)
    assert list(mixer.state_dict()) == ["qkv.weight", "qkv.bias", "q_norm.weight", "k_norm.weight", "proj.weight"]
    assert mixer.qkv.weight.unique().item() == mixer.proj.weight.unique().item() == 16 and not mixer.qkv.bias.any()


def test_the_adapter_makes_rows_of_tokens_and_counts_whole_rows():
    kernel = partial(SIRENKernel, 4, 2, 5, num_layers=2, embedding_dim=4, omega_0=1.0, L_cache=4, use_bias=True)
    inner = partial(QKVSequenceMixer, 4, partial(CKConv, 2, 4, kernel, nn.Identity, "double", "zero"))
    adapter, x = ViT5HyenaAdapter(inner, 3), torch.randn(2, 4, 3, 4)
    torch.testing.assert_close(adapter(x.flatten(1, 2)).view(x.shape), adapter.inner_mixer(x))
    assert all(name.startswith("inner_mixer.") for name in adapter.state_dict())
    for inference in (False, True):
        assert adapter.flop_count(12, inference) == adapter.inner_mixer.flop_count((4, 3), inference) > 0
    assert adapter.flop_count(11) == adapter.flop_count(12) and ViT5HyenaAdapter(nn.Identity, 3).flop_count(12) == 0


def test_pooling_is_a_softmax_mean_and_starts_as_the_mean():
    pooling, x = RegisterPooling(4).double(), torch.randn(3, 4, 5, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(pooling(x), x.mean(1))
    nn.init.normal_(pooling.logits)
    weights = torch.exp(pooling.logits) / torch.exp(pooling.logits).sum()
    agree(pooling(x), sum(weights[r] * x[:, r] for r in range(4)), [x, pooling.logits], 1e-12)
    assert pooling.flop_count(5) == 3 * 4 + 2 * 4 * 5


def test_concatenation_maps_each_register_alike():
    concat, x = RegisterCompressConcat(3, 5, 2).double(), torch.randn(4, 3, 5).double()
    expected = torch.cat([x[:, r] @ concat.compress.weight.T for r in range(3)], dim=1)
    torch.testing.assert_close(concat(x), expected, rtol=1e-13, atol=1e-13)
    assert concat.out_dim == 6 and concat.flop_count(5) == 3 * 2 * 5 * 2


def test_the_keys_of_registers_and_what_is_exempt_from_weight_decay():
    both = nn.Sequential(RegisterPooling(3), RegisterCompressConcat(3, 5, 2))
    assert list(both.state_dict()) == ["0.logits", "1.compress.weight"]
    assert [list(group["params"][0].shape) for group in parameter_groups(both, 0.1)] == [[2, 5], [3]]

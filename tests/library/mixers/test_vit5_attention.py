"""ViT-5's attention: torch's own where nothing is rotated, and the laws of its rotations. Beside the block's
transcription: tests/blocks/test_vit5_block.py."""

import re
from functools import partial

import pytest
import torch
from torch import nn

from residual_edu import InvalidInput, L2Norm, RMSNorm, ViT5Attention, rotary_cos_sin

pytestmark = pytest.mark.usefixtures("as_installed")

SIZES = {"hidden_dim": 16, "num_heads": 2, "num_patches_h": 3, "num_patches_w": 4, "num_registers": 4}  # 17 tokens


def made(**changes):
    mixer = ViT5Attention(**(SIZES | changes)).double()
    for p in mixer.parameters():
        nn.init.normal_(p, std=0.3)
    return mixer


@pytest.mark.parametrize("bias", [False, True])
def test_without_angles_it_is_torchs(bias):
    mixer, x = made(qkv_bias=bias, out_proj_bias=bias), torch.randn(3, 17, 16).double()
    mixer.cos_sin.tables = rotary_cos_sin(torch.zeros(17, 4))
    theirs = nn.MultiheadAttention(16, 2, bias=bias, batch_first=True).double()
    theirs.in_proj_weight, theirs.in_proj_bias, theirs.out_proj = mixer.qkv.weight, mixer.qkv.bias, mixer.proj
    torch.testing.assert_close(mixer(x), theirs(x, x, x)[0], rtol=1e-12, atol=1e-12)


def angles_of(mixer):
    cos, sin = mixer.cos_sin.tables
    return torch.atan2(sin, cos).chunk(2, dim=-1)[1]


def alike(mixer):
    """Scores between equal tokens, which differ in their positions only: (heads, tokens, tokens)."""
    q, k, _ = mixer.heads(torch.randn(1, 1, 16).double().expand(1, mixer.num_tokens, 16))
    return (q @ k.mT)[0]


def test_scores_depend_on_the_offset_between_two_patches_alone():
    scores = alike(made())[:, :12, :12].unflatten(1, (3, 4)).unflatten(3, (3, 4))  # head, row, column, row, column
    torch.testing.assert_close(scores[:, 1:, 1:, 1:, 1:], scores[:, :-1, :-1, :-1, :-1], rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(scores[:, 0, 0, 2, 1], scores[:, 0, 2, 2, 3], rtol=1e-11, atol=1e-11)
    assert (scores[:, 0, 0, 0, 1] - scores[:, 0, 0, 1, 0]).abs().min() > 1e-6  # across is not down


def test_a_rotation_keeps_the_length_of_queries_and_keys():
    mixer, x = made(), torch.randn(2, 17, 16).double()
    plain = mixer.qkv(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
    for turned, before in zip(mixer.heads(x)[:2], plain[:2], strict=True):
        torch.testing.assert_close(turned.norm(dim=-1), before.norm(dim=-1), rtol=1e-12, atol=1e-12)


def test_the_cls_token_is_not_rotated_and_the_registers_have_a_grid_of_their_own():
    angles = angles_of(made())
    assert angles.shape == (17, 4) and not angles[12].any()
    expected = [[y, y / 10, x, x / 10] for y in range(2) for x in range(2)]  # base 100, two pairs an axis
    torch.testing.assert_close(angles[13:], torch.tensor(expected, dtype=torch.float64))
    assert not torch.equal(angles_of(made(reg_rope_base=50.0))[13:], angles[13:])


@pytest.mark.parametrize("count, side", [(0, 1), (1, 1), (2, 2), (3, 2), (5, 3), (9, 3)])
def test_any_number_of_registers_fills_its_grid_row_by_row(count, side):
    angles = angles_of(made(num_registers=count, has_cls=False))[12:].round(decimals=12)
    places = [[i // side, i % side] for i in range(count)]
    assert (
        angles[:, ::2].tolist() == places and made(num_registers=count)(torch.randn(1, 13 + count, 16).double()).any()
    )


@pytest.mark.parametrize("has_cls", [False, True])
def test_how_many_tokens_it_takes(has_cls):
    mixer = made(has_cls=has_cls)
    assert mixer(torch.randn(2, 16 + has_cls, 16).double()).shape == (2, 16 + has_cls, 16)


@pytest.mark.parametrize("norm", [partial(RMSNorm, 8), L2Norm])
def test_queries_and_keys_have_norms_of_their_own(norm):
    mixer, x = made(qk_norm=norm), torch.randn(2, 17, 16).double()
    assert mixer.q_norm is not mixer.k_norm
    plain = made(qk_norm=norm)
    plain.load_state_dict(mixer.state_dict())
    plain.qkv.weight.data[:32] *= 1000  # queries and keys, not values
    torch.testing.assert_close(plain(x), mixer(x), rtol=1e-5, atol=1e-6)


def test_a_condition_is_ignored():
    mixer, x = made(), torch.randn(2, 17, 16).double()
    assert mixer(x, conditioning=torch.full((2, 16), torch.nan)).equal(mixer(x))


@pytest.mark.parametrize("where", ["attn_dropout", "proj_dropout"])
def test_dropout_falls_in_training_only(where):
    mixer, x = made(**{where: 0.5}), torch.randn(2, 17, 16).double()
    assert not mixer(x).equal(mixer(x)) and mixer.eval()(x).equal(mixer(x))
    assert where == "attn_dropout" or (mixer.train()(x) == 0).double().mean().sub(0.5).abs() < 0.1


@pytest.mark.parametrize("scale", [None, 0.1])
def test_scale(scale):
    mixer, x = made(scale=scale), torch.randn(2, 17, 16).double()
    q, k, v = mixer.heads(x)
    y = (q @ k.mT * (8**-0.5 if scale is None else scale)).softmax(-1) @ v
    torch.testing.assert_close(mixer(x), mixer.proj(y.transpose(1, 2).flatten(2)), rtol=1e-12, atol=1e-12)


def test_the_keys_and_the_starts():
    fill = lambda weight: weight.fill_(weight.shape[1])  # noqa: E731
    mixer = ViT5Attention(
        **SIZES, qk_norm=partial(RMSNorm, 8), qkv_bias=True, init_fn_qkv_proj=fill, init_fn_out_proj=fill
    )
    assert list(mixer.state_dict()) == ["qkv.weight", "qkv.bias", "q_norm.weight", "k_norm.weight", "proj.weight"]
    assert mixer.qkv.weight.unique().item() == mixer.proj.weight.unique().item() == 16 and not mixer.qkv.bias.any()


def test_16_bit_tokens_are_rotated_by_exact_angles():
    mixer, x = made(num_patches_h=100, num_patches_w=1, num_registers=0), torch.randn(1, 101, 16)
    exact = mixer(x.double())
    found = mixer.bfloat16()(x.bfloat16()).double()
    assert (found - exact).norm() / exact.norm() < 0.02


REFUSED = [
    (lambda: made(num_heads=8), "head_dim must be "),
    (lambda: made(num_registers=-1), "num_registers must be a whole number, at least 0, got -1"),
    (lambda: made(attn_dropout=1.0), "attn_dropout must be a number in [0, 1), got 1.0"),
    (lambda: made(proj_dropout=1.0), "proj_dropout must be a number in [0, 1), got 1.0"),
    (lambda: made(rope_base=0.0), "base must be "),
    (lambda: made(reg_rope_base=-1.0), "base must be "),
    (lambda: made()(torch.zeros(2, 18, 16).double()), "x must be floating point of shape (batch, 17, channels), got "),
    (lambda: made()(torch.zeros(2, 1, 16).double()), "x must be floating point of shape (batch, 17, channels), got "),
]


@pytest.mark.parametrize("call, words", REFUSED)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{re.escape(words)}"):
        call()


@pytest.mark.parametrize("changes", [{"hidden_dim": 17, "num_heads": 4}, {"num_heads": 0}, {"qk_norm": {}}])
def test_torch_and_python_refuse_heads_that_do_not_divide_and_empty_descriptions(changes):
    with pytest.raises((RuntimeError, ZeroDivisionError, KeyError)):
        made(**changes)(torch.zeros(2, 17, 17).double())

"""What ViT-5 mixes by: its attention, the adapter of two-axis mixers, registers."""

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
)
from tests.library.helpers import agree, decayed, rms

pytestmark = pytest.mark.usefixtures("all_as_installed")

SIZES = {"hidden_dim": 16, "num_heads": 2, "num_patches_h": 3, "num_patches_w": 4, "num_registers": 4}  # 17 tokens


def made(**changes):
    mixer = ViT5Attention(**(SIZES | changes)).double()
    for p in mixer.parameters():
        nn.init.normal_(p, std=0.3)
    return mixer


def tokens():
    return torch.randn(2, 17, 16, dtype=torch.float64, requires_grad=True)


def turned(x):
    """Turn the pairs of (samples, heads, tokens, 8) as complex numbers: patches, CLS token, registers."""
    places = [(y, x, 1e4) for y in range(3) for x in range(4)] + [(0, 0, 1.0)]
    places += [(y, x, 100.0) for y in range(2) for x in range(2)]
    angles = [[y, y * base**-0.5, x, x * base**-0.5] for y, x, base in places]
    turns = torch.polar(torch.ones(len(places), 4).double(), torch.tensor(angles, dtype=torch.float64))
    y = torch.complex(x[..., :4], x[..., 4:]) * turns
    return torch.cat([y.real, y.imag], dim=-1)


def attended(x, p, scale):
    biases = p["qkv.bias"].chunk(3) if "qkv.bias" in p else [0] * 3
    q, k, v = (x @ w.T + b for w, b in zip(p["qkv.weight"].chunk(3), biases, strict=True))
    q, k, v = (torch.stack(signal.split(8, dim=-1), 1) for signal in (q, k, v))
    if "q_norm.weight" in p:
        q, k = rms(q, p["q_norm.weight"]), rms(k, p["k_norm.weight"])
    weights = torch.exp(turned(q) @ turned(k).mT * scale)
    heard = weights / weights.sum(-1, keepdim=True) @ v
    return torch.cat(heard.unbind(1), dim=-1) @ p["proj.weight"].T + p.get("proj.bias", 0)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("changes", [{}, {"scale": 0.1}, {"qk_norm": partial(RMSNorm, 8)}])
def test_attention_in_float64(changes, bias):
    mixer, x = made(qkv_bias=bias, out_proj_bias=bias, **changes), tokens()
    p = dict(mixer.named_parameters())
    agree(mixer(x), attended(x, p, changes.get("scale", 8**-0.5)), [x, *p.values()])


@pytest.mark.parametrize("count, side", [(0, 1), (1, 1), (2, 2), (4, 2), (5, 3)])
def test_any_number_of_registers_fills_its_grid_row_by_row(count, side):
    mixer = made(num_registers=count, has_cls=False)
    cos, sin = mixer.cos_sin.tables
    angles = torch.atan2(sin, cos)[12:, 4:].round(decimals=12)
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


def test_concatenation_maps_each_register_alike_and_what_is_exempt_from_weight_decay():
    concat, x = RegisterCompressConcat(3, 5, 2).double(), torch.randn(4, 3, 5).double()
    expected = torch.cat([x[:, r] @ concat.compress.weight.T for r in range(3)], dim=1)
    torch.testing.assert_close(concat(x), expected, rtol=1e-13, atol=1e-13)
    assert concat.out_dim == 6 and concat.flop_count(5) == 3 * 2 * 5 * 2
    both = nn.Sequential(RegisterPooling(3), concat)
    assert list(both.state_dict()) == ["0.logits", "1.compress.weight"] and decayed(both) == ["1.compress.weight"]

"""What a block does around its parts. Values and decoding of every make: test_every_combination.py."""

import pytest
import torch

from residual_edu import ConfigurableBlock, LayerNorm, RMSNorm

from .small import config


def block(**changes):
    return ConfigurableBlock(config(**changes)).double()


def signal(positions=5):
    return torch.randn(2, positions, 16, dtype=torch.float64)


@pytest.mark.parametrize("pre_norm", [True, False])
def test_none_for_both_returns_the_very_same_tensor_and_has_no_parameters(pre_norm):
    made = block(attention="none", ffn="none", pre_norm=pre_norm)
    assert made(x := signal())[0] is x and not made.state_dict()
    assert {key.split(".")[0] for key in block(attention="none").state_dict()} == {"ffn", "ffn_norm"}
    assert {key.split(".")[0] for key in block(ffn="none").state_dict()} == {"attention", "attn_norm"}


@pytest.mark.parametrize(("name", "norm"), [("layer_norm", LayerNorm), ("rms_norm", RMSNorm)])
def test_norms_are_those_of_the_parts(name, norm):
    made, part = block(norm=name, norm_eps=1e-2).attn_norm, norm(16, 1e-2).double()
    part.load_state_dict(made.state_dict())
    torch.testing.assert_close(made(x := signal()), part(x), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("pre_norm", [True, False])
def test_dropout_falls_on_each_branch_by_itself_in_training_alone(pre_norm):
    made, x = block(dropout=0.5, pre_norm=pre_norm), signal()
    quiet = block(pre_norm=pre_norm)
    quiet.load_state_dict(made.state_dict())
    assert made.eval()(x)[0].equal(quiet(x)[0])
    made.train()
    torch.manual_seed(3)
    y = made(x)[0]
    torch.manual_seed(3)
    coins = [(torch.rand(x.shape, dtype=torch.float32) >= 0.5) * 2.0 for _ in range(2)]
    norms = [made.attn_norm, made.ffn_norm]
    for norm, coin, branch in zip(norms, coins, [lambda h: made.attention(h)[0], made.ffn], strict=True):
        x = x + branch(norm(x)) * coin if pre_norm else norm(x + branch(x) * coin)
    torch.testing.assert_close(y, x)


PAIR = tuple(torch.zeros(2, 2, 5, 4) for _ in range(2))
MASK = torch.ones(4, 4, dtype=torch.bool)


def run(*shape, cache=None, mask=None):
    return ConfigurableBlock(config(attention="gqa"))(torch.zeros(shape), mask, cache)


@pytest.mark.parametrize(
    "call",
    [
        lambda: run(2, 12, 16, cache=PAIR),
        lambda: run(2, 4, 16, mask=MASK[:3]),  # a mask of other queries, or without the cache's keys
        lambda: run(2, 1, 16, cache=PAIR, mask=MASK[:1, :1]),
        lambda: run(2, 4, 16, mask=MASK[0]),
        lambda: run(2, 4, 16, mask=MASK.long()),
        lambda: run(2, 4, 16, mask=torch.ones(4, 4).tril()),  # would be added to the scores, and hide nothing
    ],
)
@pytest.mark.usefixtures("as_installed")
def test_what_is_refused(call):
    with pytest.raises((ValueError, RuntimeError)):  # InvalidInput is a ValueError
        call()

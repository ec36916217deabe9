import pytest
import torch
from torch import nn

from residual_edu import BlockConfig, LanguageModel, ModelCache, ModelConfig
from tests.library.helpers import refused

from ..configurable import transcription

SIZES = {"d_model": 16, "n_heads": 4, "n_kv_heads": 2, "d_ff": 12, "max_seq_len": 16, "window_size": 3}
SIZES |= {"kv_lora_rank": 6, "rope_dim": 2}


def block(**changes):
    return BlockConfig(**(SIZES | changes))


def model(n_layers=2, tie=True, layers=None, **changes):
    return LanguageModel(ModelConfig(block(**changes), 7, n_layers, tie, layers)).double()


def tokens(positions=8, batch=2):
    return torch.randint(0, 7, (batch, positions))


MIXED = [
    block(attention="none", position="sinusoidal"),
    block(attention="mla", ffn="gated", position="rope", pre_norm=False),
    block(attention="sliding_window", ffn="none", position="alibi", norm="rms_norm"),
]


@pytest.mark.parametrize("tie", [True, False])
def test_values_in_float64_with_a_config_for_each_layer_at_once_and_in_pieces(tie):
    made, t = model(3, tie, MIXED, norm="rms_norm"), tokens()
    for p in made.parameters():
        nn.init.normal_(p, std=0.5)
    logits = made(t)[0]
    for sample in range(2):
        x = made.embed.weight[t[sample]] + transcription.waves(8, 16)
        for c, one in zip(MIXED, made.blocks, strict=True):
            x = transcription.block(dict(one.named_parameters()), c, x, lambda i, j: j <= i)
        x = transcription.normed(dict(made.named_parameters()), "final_norm", x, "rms_norm")
        expected = x @ (made.embed.weight if tie else made.head.weight).T
        torch.testing.assert_close(logits[sample], expected, rtol=1e-11, atol=1e-11)
    cache = None
    for piece, expected in zip(t.split(3, dim=1), logits.split(3, dim=1), strict=True):
        found, cache = made(piece, cache)
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)
    assert cache.length == 8


def test_the_first_scores_are_of_size_1():
    torch.manual_seed(0)
    made = LanguageModel(ModelConfig(block(), vocab_size=4000, n_layers=1))
    assert 0.9 < made(torch.arange(16)[None])[0].std() < 1.1
    assert abs(made.embed.weight.std() * 4 - 1) < 0.05


def test_dropout_falls_on_the_embedding_in_training():
    made = model(dropout=0.5, attention="none", ffn="none", position="none")
    seen = []
    made.final_norm.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    made(tokens())
    made.eval()(tokens())
    assert 0.3 < (seen[0] == 0).double().mean() < 0.7 and not (seen[1] == 0).any()


def continued(positions=0, **changes):
    """A token more, with a cache of so many positions, changed."""
    made, cache = model(), ModelCache(0, (None, None))
    return made(tokens(1), (made(tokens(positions))[1] if positions else cache)._replace(**changes))


test_what_is_refused = refused(
    (lambda: model()(tokens(17)), "positions must be at most 16, got 0 and 17 new ones"),
    (lambda: continued(16), "positions must be at most 16, got 16 and 1 new ones"),
    (lambda: continued(5, length=3), "cache.length must be 5, got 3"),
    (lambda: continued(length=2), "cache.length must be 0, got 2"),
    (
        lambda: model(2, True, [block(position="rope"), block(position="sinusoidal")]),
        "positions must be added by the first block, got RoPE first and Sinusoidal later",
    ),
    (lambda: continued(blocks=(None,)), "zip() argument 2 is shorter"),
    error=ValueError,  # as InvalidInput is
)

import copy
import re

import pytest
import torch
from torch import nn

from residual_edu import BlockConfig, InvalidInput, LanguageModel, ModelCache, ModelConfig

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
def test_values_in_float64_with_a_config_for_each_layer(tie):
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


@pytest.mark.parametrize("size", [1, 3, 5])
def test_decoding_with_a_config_for_each_layer(size):
    made, t = model(3, True, MIXED), tokens()
    cache, pieces = None, []
    for piece in t.split(size, dim=1):
        logits, cache = made(piece, cache)
        pieces.append(logits)
    torch.testing.assert_close(torch.cat(pieces, 1), made(t)[0], rtol=1e-11, atol=1e-11)
    assert cache.length == 8


@pytest.mark.parametrize("position", ["rope", "sinusoidal", "alibi", "none"])
@pytest.mark.parametrize("attention", ["mha", "gqa", "sliding_window_gqa", "mla", "none"])
def test_no_output_depends_on_a_later_token(attention, position):
    made, t = model(attention=attention, position=position), tokens(batch=1)
    other = t.clone()
    other[0, 5] = (other[0, 5] + 1) % 7
    changed = (made(t)[0] - made(other)[0]).abs().amax((0, 2)) > 0
    assert not changed[:5].any() and changed[5]


def test_tied_or_untied():
    assert model().head is None and model(tie=False).head.weight.shape == (7, 16)
    tied, untied = (sum(p.numel() for p in model(tie=tie).parameters()) for tie in (True, False))
    assert untied - tied == 7 * 16 and model(tie=False).head.bias is None


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


@pytest.mark.parametrize(("attention", "numbers"), [("mha", 32), ("gqa", 16), ("mla", 8), ("none", 0)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_bytes_per_token(attention, numbers, dtype):
    made = model(attention=attention).to(dtype)
    _, cache = made(tokens(5))
    assert cache.bytes_per_token() == 2 * numbers * dtype.itemsize  # two blocks
    _, cache = made(tokens(3), cache)
    assert cache.bytes_per_token() == 2 * numbers * dtype.itemsize and cache.length == 8
    assert ModelCache(0, ()).bytes_per_token() == 0


def test_the_cache_is_none_in_training_and_a_pair_of_tensors_in_generation():
    made, seen = model(), []
    made.blocks[1].register_forward_pre_hook(lambda module, args: seen.append(args[2]))
    made(tokens())[0].sum().backward()
    assert seen == [None]
    made.generate(tokens(3), 3)
    assert seen[1] is None and [tuple(k.shape for k in pair) for pair in seen[2:]] == [
        ((2, 4, length, 4),) * 2 for length in (3, 4)
    ]


def test_a_cache_may_be_used_twice():
    made, t = model(), tokens()
    _, cache = made(t[:, :5])
    first, again = made(t[:, 5:], cache)[0], made(t[:, 5:], cache)[0]
    assert first.equal(again) and cache.length == 5


def test_a_copy_of_its_state_gives_the_same_numbers():
    made, t = model(tie=False), tokens()
    other = model(tie=False)
    other.load_state_dict(made.state_dict())
    assert other(t)[0].equal(made(t)[0]) and copy.deepcopy(made)(t)[0].equal(made(t)[0])
    assert {key.split(".")[0] for key in made.state_dict()} == {"embed", "blocks", "final_norm", "head"}


@pytest.mark.parametrize("seed", range(3))
def test_it_learns_to_count(seed):
    torch.manual_seed(seed)
    made = LanguageModel(ModelConfig(block(position="rope", attention="gqa"), 7, 1))
    optimizer = torch.optim.AdamW(made.parameters(), 1e-2)
    for _ in range(60):
        t = (torch.randint(0, 7, (16, 1)) + torch.arange(9)) % 7
        loss = nn.functional.cross_entropy(made(t[:, :-1])[0].flatten(0, 1), t[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.2
    assert made.generate(torch.tensor([[3, 4]]), 6, temperature=0.0).tolist() == [[3, 4, 5, 6, 0, 1, 2, 3]]


@pytest.mark.parametrize("attention, position", [("gqa", "rope"), ("none", "none"), ("mha", "sinusoidal")])
@pytest.mark.usefixtures("as_installed")
def test_it_compiles_into_one_graph(attention, position, compiled):
    """Its tokens are not read while compiling; with and without a cache."""
    made, t = model(attention=attention, position=position), tokens()
    one = compiled(made)
    torch.testing.assert_close(one(t)[0], made(t)[0], rtol=1e-12, atol=1e-12)
    with torch.no_grad():
        _, cache = made(t[:, :5])
        torch.testing.assert_close(one(t[:, 5:], cache)[0], made(t[:, 5:], cache)[0], rtol=1e-12, atol=1e-12)


def continued(made, cache, batch=2):
    return made(tokens(1, batch), cache)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda made: made(tokens(17)), "positions must be at most 16, got 0 and 17 new ones"),
        (lambda made: continued(made, made(tokens(16))[1]), "positions must be at most 16, got 16 and 1 new ones"),
        (lambda made: continued(made, made(tokens(5))[1]._replace(length=3)), "cache.length must be 5, got 3"),
        (lambda made: continued(made, ModelCache(2, (None, None))), "cache.length must be 0, got 2"),
        (
            lambda made: model(2, True, [block(position="rope"), block(position="sinusoidal")]),
            "positions must be added by the first block, got RoPE first and Sinusoidal later",
        ),
    ],
)
@pytest.mark.usefixtures("as_installed")
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{re.escape(words)}"):
        call(model())


@pytest.mark.parametrize(
    "call",
    [
        lambda made: made(torch.tensor([[7]])),
        lambda made: made(torch.zeros(1, 2)),
        lambda made: made(torch.tensor([1])),
        lambda made: made(tokens()[:, None]),
        lambda made: continued(made, 3),
        lambda made: continued(made, ModelCache(0, (None,))),
    ],
)
@pytest.mark.usefixtures("as_installed")
def test_what_fits_no_layer_is_an_error_at_the_same_call(call):
    with pytest.raises((InvalidInput, IndexError, RuntimeError, ValueError, AttributeError)):
        call(model())

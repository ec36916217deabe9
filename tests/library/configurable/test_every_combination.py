"""Every attention with every feed-forward network, norm, position, placement and bias, any four of them at a time."""

import pytest
import torch

from residual_edu import LanguageModel, ModelConfig

from . import transcription
from .small import ATTENTIONS, GRID, POSITIONS, config

pytestmark = pytest.mark.usefixtures("all_as_installed")  # the shapes are checked by the other tests

pairs = pytest.mark.parametrize(("attention", "position"), [(a, p) for a in ATTENTIONS for p in POSITIONS])
NAMES = ("attention", "ffn", "position", "norm", "pre_norm", "bias")


def configs(attention, position):
    chosen = (dict(zip(NAMES, values, strict=True)) for values in GRID)
    return [config(**one) for one in chosen if (one["attention"], one["position"]) == (attention, position)]


def decoded(model, tokens, size):
    cache, outputs = None, []
    for piece in tokens.split(size, dim=1):
        logits, cache = model(piece, cache)
        outputs.append(logits)
    return torch.cat(outputs, dim=1)


@pairs
@torch.no_grad()
def test_decoding_token_by_token_and_in_chunks_of_3_equals_the_whole_sequence(attention, position):
    tokens = torch.randint(0, 7, (2, 8))
    for c in configs(attention, position):
        model = LanguageModel(ModelConfig(c, vocab_size=7, n_layers=1))
        whole = decoded(model, tokens, 8)
        for size in (1, 3):
            torch.testing.assert_close(decoded(model, tokens, size), whole, rtol=0, atol=1e-5, msg=str((c, size)))


@pairs
def test_values_in_float64_and_a_gradient_for_every_weight(attention, position):
    tokens = torch.randint(0, 7, (1, 5))
    for c in configs(attention, position):
        model = LanguageModel(ModelConfig(c, vocab_size=7, n_layers=1)).double()
        for p in model.parameters():
            torch.nn.init.normal_(p, std=0.5)
        x = model.embed.weight[tokens[0]]
        if position == "sinusoidal":
            x = x + transcription.waves(5, c.d_model)
        block = dict(model.blocks[0].named_parameters())
        y = transcription.block(block, c, x, lambda i, j: j <= i)
        expected = transcription.normed(dict(model.named_parameters()), "final_norm", y, c.norm) @ model.embed.weight.T
        found = model(tokens)[0][0]
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11, msg=str(c))
        found.square().sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters()), c

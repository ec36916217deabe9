"""A row that is padded among others gives what it gives alone."""

import re

import pytest
import torch
from torch import nn

from residual_edu import InvalidInput, LanguageModel, ModelConfig, PositionBase, attention_registry, position_registry
from tests.library.configurable.small import ATTENTIONS, POSITIONS, config

PAIRS = list(zip(ATTENTIONS, [*POSITIONS, "learned"], strict=True))
LENGTHS = [3, 7, 1, 5]
MASK = torch.arange(7) >= 7 - torch.tensor(LENGTHS)[:, None]
TOKENS = torch.randint(0, 7, (4, 7), generator=torch.Generator().manual_seed(3))


class Learned(PositionBase):
    """A learned vector for each position, added to a stream that it scales."""

    def __init__(self, config):
        super().__init__(config)
        self.table = nn.Embedding(config.max_seq_len, config.d_model)

    def embed(self, x, start):
        return 2 * x + self.table.weight[start : start + x.shape[1]]


class Deaf(nn.Module):
    """Mixes positions by no mask."""

    def __init__(self, config):
        super().__init__()

    def forward(self, x, mask=None, cache=None):
        return x.cumsum(1), (x[..., :0], x[..., :0])


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(position_registry.entries, "learned", Learned)
    monkeypatch.setitem(attention_registry.entries, "deaf", Deaf)


def model(**changes):
    made = LanguageModel(ModelConfig(config(**changes), vocab_size=7, n_layers=2)).double()
    for p in made.parameters():
        nn.init.normal_(p, std=0.5)
    return made


@pytest.mark.parametrize(("attention", "position"), PAIRS)
def test_generated_among_others_as_alone(attention, position):
    """With a penalty for what is in the row, which is not for what pads it: -1 is no token at all."""
    made, settings = model(attention=attention, position=position), {"temperature": 0.0, "repetition_penalty": 1.7}
    prompt = TOKENS.masked_fill(~MASK, -1)
    together = made.generate(prompt, 9, prompt_mask=MASK, **settings)
    assert together[:, :7].equal(prompt)
    for length, row in zip(LENGTHS, together, strict=True):
        assert made.generate(row[None, 7 - length : 7], 9, **settings)[0, length:].equal(row[7:])


@pytest.mark.parametrize(("attention", "position"), PAIRS)
def test_logits_and_gradients_of_each_row(attention, position):
    """In one call, or in two with a cache between; what pads a row has no influence."""
    made = model(attention=attention, position=position, pre_norm=False)
    logits, _ = made(TOKENS, None, MASK)
    weights = list(made.parameters())
    for row, length in enumerate(LENGTHS):
        alone, _ = made(TOKENS[row : row + 1, -length:])
        torch.testing.assert_close(logits[row, -length:], alone[0], rtol=1e-11, atol=1e-11)
        sums = logits[row, -length:].square().sum(), alone.square().sum()
        kept = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
        for a, b in zip(*(torch.autograd.grad(each, weights, **kept) for each in sums), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
    pieces, cache = [], None
    for end in (5, 6, 7):  # the row of one token has only padding before
        piece, cache = made(TOKENS[[0, 1, 3]][:, cache.length if cache else 0 : end], cache, MASK[[0, 1, 3], :end])
        pieces.append(piece)
    found, wanted = torch.cat(pieces, 1), logits[[0, 1, 3]]
    torch.testing.assert_close(found[MASK[[0, 1, 3]]], wanted[MASK[[0, 1, 3]]], rtol=1e-11, atol=1e-11)


WANTED = "token_mask must be boolean of shape (4, 7), False and then True in each row, got "


@pytest.mark.parametrize(
    ("mask", "changes", "words"),
    [
        (MASK.flip(1), {}, WANTED),
        (torch.zeros(4, 7, dtype=torch.bool), {}, WANTED),
        (MASK[:1], {}, WANTED),
        (MASK, {"attention": "deaf"}, f"token_mask must be None: {Deaf} may not read it"),
    ],
)
@pytest.mark.usefixtures("as_installed")
def test_what_is_refused(mask, changes, words):
    made = model(**changes)
    with pytest.raises(InvalidInput, match=f"^{re.escape(words)}"):
        made(TOKENS, None, mask)
    with pytest.raises(InvalidInput):
        made.generate(TOKENS, 2, prompt_mask=mask)

"""Registries, and the page's three steps for a component of one's own, as a learner would write them in a cell."""

import re
from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import nn

import residual_edu as library
from residual_edu import ConfigurableBlock, InvalidInput, Registry

from .small import causal, config, in_chunks

pytestmark = pytest.mark.usefixtures("all_as_installed")


class A(nn.Module):
    pass


class B(nn.Module):
    pass


@pytest.fixture
def registry():
    made = Registry("attention", aliases={"long": "b", "gone": "z"})
    made.register("b", B)
    return made


def test_an_alias_is_another_spelling_until_a_class_takes_it(registry):
    assert registry.get("long") is B and "long" in registry
    registry.register("long", A)
    assert registry.get("long") is A and registry.get("b") is B
    assert "gone" not in registry and "gone" not in list(registry)


def from_a_cell(name="Window"):
    return type(name, (nn.Module,), {"__module__": "__main__"})


def test_a_cell_can_be_run_again(registry):
    registry.register("window", from_a_cell())
    registry.register("window", again := from_a_cell())
    assert registry.get("window") is again
    with pytest.raises(InvalidInput, match="^attention 'window' is taken"):
        registry.register("window", from_a_cell("Other"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.register("b")(A), "attention 'b' is taken, choose another name"),
        (lambda r: r.get("bb"), "attention must be one of 'b', 'long', got 'bb'; did you mean 'b'?"),
    ],
)
def test_what_is_refused(registry, call, message):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        call(registry)
    assert registry.entries == {"b": B}


PAGE = """
from residual_edu import *
import torch
import torch.nn as nn

@attention_registry.register('sliding_window')
class SlidingWindowAttention({base}):
    def __init__(self, config: BlockConfig) -> None:
        super().__init__({argument})
        self.d_model, self.head_dim = config.d_model, config.head_dim
        self.window_size = config.max_seq_len
        self.q_proj = nn.Linear(self.d_model, self.d_model, bias=config.bias)
        self.k_proj = nn.Linear(self.d_model, self.d_model, bias=config.bias)
        self.v_proj = nn.Linear(self.d_model, self.d_model, bias=config.bias)
        self.o_proj = nn.Linear(self.d_model, self.d_model, bias=config.bias)
        self.scale = self.head_dim ** -0.5

    def {call}(self, x, mask=None, cache=None):
        q, k, v = (proj(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
                   for proj in (self.q_proj, self.k_proj, self.v_proj))
        if cache is not None:
            k, v = (torch.cat(both, dim=2) for both in zip(cache, (k, v)))
        apart = torch.arange(k.shape[2])[-q.shape[2]:, None] - torch.arange(k.shape[2])
        allowed = (apart >= 0) & (apart < self.window_size)
        if mask is not None:
            allowed = allowed & mask
        scores = (q @ k.mT * self.scale).masked_fill(~allowed, float('-inf'))
        return self.o_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)), (k, v)
"""


# In torch forward is the page's __call__, and either works.
@pytest.mark.parametrize(
    ("base", "argument", "call"), [("AttentionBase", "config", "forward"), ("nn.Module", "", "__call__")]
)
def test_the_class_of_the_page_written_into_a_cell(base, argument, call):
    code = PAGE.format(base=base, argument=argument, call=call)
    exec(compile(code, "<cell>", "exec"), namespace := {"__name__": "__main__"})
    x = torch.randn(2, 7, 16).double()
    for ffn, norm, position in product(library.ffn_registry, library.norm_registry, library.position_registry):
        c = config(attention="sliding_window", ffn=ffn, norm=norm, position=position)
        for one in (c, replace(c, pre_norm=False)):
            block = ConfigurableBlock(one).double()
            assert type(block.attention) is namespace["SlidingWindowAttention"]
            torch.testing.assert_close(in_chunks(block, x, 3), block(x, causal(7))[0], rtol=1e-11, atol=1e-11)
    c = config(attention="sliding_window_gqa", position="none", n_kv_heads=None, max_seq_len=3)
    ours, theirs = ConfigurableBlock(c), ConfigurableBlock(replace(c, attention="sliding_window"))
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 3, 16)
    torch.testing.assert_close(ours(x)[0], theirs(x)[0])


def test_a_feed_forward_network_a_norm_and_a_position_of_ones_own():
    library.ffn_registry.register("linear", lambda config: nn.Linear(config.d_model, config.d_model))
    library.norm_registry.register("nothing", lambda config: nn.Identity())

    @library.position_registry.register("counted")
    class Counted(library.PositionBase):
        def embed(self, x, start):
            return x + torch.arange(start, start + x.shape[1])[:, None]

    c = config(attention="none", ffn="linear", norm="nothing", position="counted")
    model = library.LanguageModel(library.ModelConfig(c, vocab_size=5, n_layers=1, tie_embeddings=False))
    tokens = torch.randint(0, 5, (1, 4))
    x = model.embed.weight[tokens] + torch.arange(4)[:, None]
    torch.testing.assert_close(model(tokens)[0], model.head(x + model.blocks[0].ffn(x)))

"""The position encodings of a block. The functions they call: tests/parts."""

import copy
import pickle

import pytest
import torch

from residual_edu import ALiBi, ConfigurableBlock, InvalidInput, PositionBase, RoPE, Sinusoidal, attention_registry

from .small import causal, config, in_chunks
from .transcription import SLOPES, waves

ALL = [RoPE, Sinusoidal, ALiBi, PositionBase]


def made(kind):
    name = {RoPE: "rope", Sinusoidal: "sinusoidal", ALiBi: "alibi", PositionBase: "none"}[kind]
    return kind(config(position=name))


@pytest.mark.parametrize("kind", ALL)
def test_each_acts_in_one_place_and_has_no_state(kind):
    position, x = made(kind), torch.randn(2, 4, 5, 4)
    acts = {
        Sinusoidal: position.embed(torch.zeros(2, 5, 16), 0).any().item(),
        RoPE: not position.rotate(x, 3).equal(x),
        ALiBi: position.bias(x, 5) is not None,
    }
    assert [one for one, does in acts.items() if does] == ([] if kind is PositionBase else [kind])
    assert not position.state_dict()


def test_the_waves_of_a_position_have_length_1():
    added = made(Sinusoidal).embed(torch.zeros(1, 16, 16, dtype=torch.float64), 0)[0]
    torch.testing.assert_close(added.norm(dim=-1), torch.ones(16).double())
    torch.testing.assert_close(added, waves(16, 16), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", [RoPE, Sinusoidal])
@pytest.mark.parametrize("used", [False, True])
def test_a_table_is_not_rounded_with_the_weights_and_is_copied_with_its_module(kind, used):
    def acts(position):
        return position.embed(torch.zeros(1, 5, 16).double(), 3), position.rotate(torch.ones(1, 2, 5, 4).double(), 3)

    position, wanted = made(kind), acts(made(kind))
    if used:
        acts(position)
    for one in (copy.deepcopy(position).half().double(), pickle.loads(pickle.dumps(position)), position.bfloat16()):
        assert all(ours.equal(theirs) for ours, theirs in zip(acts(one), wanted, strict=True))
        assert not one.state_dict() and not list(one.buffers())


@pytest.mark.parametrize("start", [0, 1, 6])
def test_positions_begin_where_they_are_told(start):
    x, y = torch.randn(1, 16, 16).double(), torch.randn(2, 2, 16, 4).double()
    later = slice(start, start + 5)
    assert made(Sinusoidal).embed(x[:, later], start).equal(made(Sinusoidal).embed(x, 0)[:, later])
    assert made(RoPE).rotate(y[:, :, later], start).equal(made(RoPE).rotate(y, 0)[:, :, later])
    assert made(ALiBi).bias(y[:, :, later], start + 5).equal(made(ALiBi).bias(y, 16)[:, later, : start + 5])


@pytest.mark.parametrize("heads", [1, 2, 4, 8])
def test_the_penalty_of_each_head(heads):
    query = torch.randn(2, heads, 3, 16 // heads).double()
    bias = ALiBi(config(n_heads=heads, n_kv_heads=1)).bias(query, 5)
    expected = [[[-m * abs(i - j) for j in range(5)] for i in (2, 3, 4)] for m in SLOPES[heads]]
    torch.testing.assert_close(bias, torch.tensor(expected).double(), rtol=1e-15, atol=0)


def test_a_rotary_product_depends_on_the_distance_alone():
    q, k = torch.randn(2, 1, 1, 1, 4).double()
    products = [(made(RoPE).rotate(q, t) * made(RoPE).rotate(k, t + 3)).sum() for t in range(6)]
    torch.testing.assert_close(torch.stack(products), products[0].expand(6), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_angles_are_not_rounded_with_the_model(dtype):
    half = RoPE(config(position="rope", max_seq_len=4096)).to(dtype)
    x = torch.ones(1, 1, 1, 4, dtype=dtype)
    exact = RoPE(config(position="rope", max_seq_len=4096)).rotate(x.double(), 3001)
    torch.testing.assert_close(half.rotate(x, 3001).double(), exact, rtol=0, atol=8e-3)


@pytest.mark.parametrize("attention", ["mha", "gqa", "mla", "sliding_window_gqa"])
@pytest.mark.parametrize("position", ["rope", "alibi", "none"])
@torch.no_grad()
def test_a_block_tells_positions_apart_only_with_an_encoding(attention, position):
    rotated = 0 if position == "none" else 4  # mla rotates by itself
    c = config(attention=attention, position=position, rope_dim=rotated, window_size=16)
    block = ConfigurableBlock(c).double()
    x = torch.randn(1, 6, 16).double()
    shuffled = x[:, [3, 0, 4, 1, 2, 5]]  # the last query hears the same others in another order
    told_apart = not torch.allclose(block(x, causal(6))[0][:, -1], block(shuffled, causal(6))[0][:, -1], atol=1e-9)
    assert told_apart == (position != "none")


def test_a_position_that_restarts_at_zero_would_be_seen():
    class Restarts(RoPE):
        def rotate(self, x, start):
            return super().rotate(x, 0)

    block = ConfigurableBlock(config(position="rope")).double()
    x = torch.randn(1, 8, 16).double()
    whole = block(x, causal(8))[0]
    torch.testing.assert_close(in_chunks(block, x, 1), whole, rtol=0, atol=1e-12)
    block.attention.position = Restarts(config(position="rope"))
    assert (in_chunks(block, x, 1) - whole).abs().max() > 1e-3


def test_a_block_and_its_attention_share_one_encoding():
    block = ConfigurableBlock(config(position="rope"))
    assert block.position is block.attention.position and isinstance(block.position, RoPE)
    assert isinstance(ConfigurableBlock(config(attention="none", position="rope")).position, RoPE)
    assert issubclass(attention_registry.get("none"), torch.nn.Identity)


@pytest.mark.parametrize(("start", "new"), [(0, 65), (60, 5), (64, 1), (-1, 1)])
@pytest.mark.usefixtures("as_installed")
def test_no_row_of_the_table_serves_two_positions(start, new):
    """One row that is left would broadcast over all that ask."""
    words = f"^positions must be at most max_seq_len=64, got {start} before and {new} new ones$"
    with pytest.raises(InvalidInput, match=words):
        RoPE(config(position="rope", max_seq_len=64)).rotate(torch.zeros(1, 1, new, 4), start)

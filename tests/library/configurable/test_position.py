"""The position encodings of a block. The functions they call: tests/parts."""

import copy
import pickle

import pytest
import torch

from residual_edu import ALiBi, ConfigurableBlock, InvalidInput, PositionBase, RoPE, Sinusoidal, attention_registry

from .small import config


def made(kind):
    name = {RoPE: "rope", Sinusoidal: "sinusoidal", ALiBi: "alibi", PositionBase: "none"}[kind]
    return kind(config(position=name))


@pytest.mark.parametrize("kind", [RoPE, Sinusoidal])
def test_a_table_is_not_rounded_with_the_weights_and_is_copied_with_its_module(kind):
    def acts(position):
        return position.embed(torch.zeros(1, 5, 16).double(), 3), position.rotate(torch.ones(1, 2, 5, 4).double(), 3)

    position, wanted = made(kind), acts(made(kind))
    copies = [copy.deepcopy(position).half().double(), pickle.loads(pickle.dumps(position))]
    for one in (*copies, copies[0].to("meta").to_empty(device="cpu"), position.bfloat16()):
        assert all(ours.equal(theirs) for ours, theirs in zip(acts(one), wanted, strict=True))
        assert not one.state_dict() and not list(one.buffers())


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

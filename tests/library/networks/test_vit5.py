"""The network: the order of its tokens, its readouts, and the arguments that it gives to each block."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from residual_edu import (
    MLP,
    RMSNorm,
    ViT5Attention,
    ViT5ClassificationNet,
    ViT5ResidualBlock,
    drop_path_schedule,
)
from tests.library.helpers import agree, decayed, refused

pytestmark = pytest.mark.usefixtures("all_as_installed")

C, R = 8, 4
NORM = partial(RMSNorm, C)


def block(readout="cls", registers=R):
    mixer = partial(ViT5Attention, C, 2, 3, 3, registers, readout == "cls", qk_norm=partial(RMSNorm, C // 2))
    return partial(ViT5ResidualBlock, mixer, NORM, partial(MLP, C, "gelu", nn.Identity), NORM, C)


def network(readout="cls", registers=R, **changes):
    sizes = {"in_channels": 3, "num_classes": 5, "hidden_dim": C, "num_blocks": 3, "patch_size": 2, "image_size": 6}
    parts = {"num_registers": registers, "block_cfg": block(readout, registers), "norm_cfg": NORM, "readout": readout}
    made = ViT5ClassificationNet(**(sizes | parts | changes)).double()
    for p in made.parameters():
        nn.init.normal_(p, std=0.3)
    return made


def images(count=2):
    return torch.randn(count, 6, 6, 3, dtype=torch.float64)


def embedded(x, made):
    """Patch by patch."""
    conv, table = made.patch_embed.conv, made.tokens.weight
    patches = [x[:, i : i + 2, j : j + 2] for i in (0, 2, 4) for j in (0, 2, 4)]
    patches = [torch.einsum("bijc,ocij->bo", patch, conv.weight) + conv.bias for patch in patches]
    rows = [patch + table[i] for i, patch in enumerate(patches)]
    return torch.stack([*rows, *(row.expand(len(x), -1) for row in table[9:])], 1)


@pytest.mark.parametrize(("readout", "narrow"), [("cls", 1), ("gap", 1), ("register_concat", 2)])
def test_values_and_gradients_in_float64(readout, narrow):
    made, x = network(readout, neck_compression_ratio=narrow), images()
    stream = embedded(x, made)
    torch.testing.assert_close(made.embed(x), stream, rtol=1e-12, atol=1e-12)
    for part in made.blocks:
        stream = part(stream)
    pooled = {
        "cls": lambda: stream[:, 9],
        "gap": lambda: sum(stream[:, i] for i in range(9)) / 9,
        "register_concat": lambda: stream[:, 9:13],
    }[readout]()
    answer = made.out_norm(pooled)
    if readout == "register_concat":
        answer = torch.cat([answer[:, r] @ made.neck.compress.weight.T for r in range(R)], 1)
    agree(made(x), answer @ made.out_proj.weight.T, made.parameters(), 1e-11)


@pytest.mark.parametrize("readout, start", [("cls", 10), ("gap", 9), ("register_concat", 9)])
def test_each_block_gets_its_rate_and_the_index_of_the_registers(readout, start):
    made = network(readout, drop_path_rate=0.3)
    assert made.register_start_idx == start and made.num_tokens == start + R
    assert [b.register_start_idx for b in made.blocks] == [start] * 3 and {b.num_registers for b in made.blocks} == {R}
    rates = [getattr(b.drop_path, "drop_prob", 0.0) for b in made.blocks]
    assert rates == drop_path_schedule(3, 0.3) == [0.0, 0.15, 0.3]


class Seen(nn.Module):
    def __init__(self, drop_path_rate, num_registers, register_start_idx):
        super().__init__()

    def forward(self, x):
        self.x = x
        return x


@pytest.mark.parametrize("multiple, padding", [(1, 0), (3, 1), (14, 0)])
def test_zeros_follow_the_registers(multiple, padding):
    made = network(block_cfg=Seen, pad_to_multiple_of=multiple)
    made(images())
    x = made.blocks[0].x
    assert made.padding == padding and x.shape == (2, 14 + padding, C) and not x[:, 14:].any() and x[:, :14].all()


def test_the_table_of_tokens_and_the_norms_are_spared_by_weight_decay():
    made = network(drop_path_rate=0.1)
    inner = ["sequence_mixer.qkv", "sequence_mixer.proj", "mlp.layer1", "mlp.layer2"]
    maps = {f"blocks.{i}.{name}.weight" for i in range(3) for name in inner}
    assert {*decayed(made)} == maps | {"patch_embed.conv.weight", "out_proj.weight"}


@pytest.mark.parametrize("readout", ["cls", "gap", "register_concat"])
def test_the_cost_agrees_with_torchs_counter(readout):
    made = network(readout)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        made(images(1))
    rows = R if readout == "register_concat" else 1
    pointwise = (3 + 3 + 1 + 1 + 6 + 6 + 2) * C * made.num_tokens  # norms, scales, qk-norms, rotations, GELU of 2 C
    assert made.flop_count() == counter.get_total_flops() + 3 * pointwise + 3 * C * rows


def test_the_start_of_the_table_and_of_the_way_out():
    made = ViT5ClassificationNet(3, 50, 64, 1, 2, 16, R, Seen, partial(RMSNorm, 64))
    assert all(abs(w.std() / 0.02 - 1) < 0.1 for w in (made.tokens.weight, made.out_proj.weight))


def turned(changes):
    return lambda: network(**changes)(images().movedim(-1, 1))


REFUSED = [
    ({"registers": -1}, "num_registers must be a whole number, at least 0, got -1"),
    ({"pad_to_multiple_of": -3}, "pad_to_multiple_of must be a whole number, at least 1, got -3"),
    ({"image_size": 7}, "image_size must be a multiple of 2, patch_size, got 7"),
    ({"readout": "clss"}, "readout must be one of 'cls', 'gap', 'register_concat', got 'clss'"),
    ({"drop_path_rate": 1.0}, "max_rate must "),
    ({"readout": "register_concat", "registers": 0}, "num_registers must be "),
    ({"readout": "register_concat", "neck_compression_ratio": 9}, "compressed_dim must be "),
    ({"block_cfg": partial(block(), num_registers=3)}, "num_registers must be 4, as the network sets it, got 3"),
    ({}, "images must be floating point of shape (batch, 6, 6, channels), got torch.float64 (2, 3, 6, 6)"),
]
test_what_is_refused = refused(*[(turned(changes), words) for changes, words in REFUSED])

"""Input that once gave a wrong answer without a word: here each gives the right one, by another way, or a sentence."""

import pytest
import torch

import residual_edu as library

pytestmark = pytest.mark.usefixtures("all_as_installed")
KINDS = [{"attention": "mha"}, {"attention": "gqa", "n_kv_heads": 1}, {"attention": "mla", "kv_lora_rank": 4}]
KINDS += [{"attention": "sliding_window_gqa", "window_size": 3}, {"attention": "mha", "position": "alibi"}]


def config(**changes):
    return library.BlockConfig(
        **({"d_model": 8, "n_heads": 2, "d_ff": 12, "max_seq_len": 9, "position": "none"} | changes)
    )


def masks(batch):
    """A mask for each sample, no two alike, in each row at least the query itself."""
    return (torch.rand(batch, 5, 5) > 0.5) | torch.eye(5, dtype=torch.bool)


@pytest.mark.parametrize("batch", [2, 3])  # of 2 heads
@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_for_each_sample_is_that_of_the_sample_alone(kind, batch):
    block, x, mask = library.ConfigurableBlock(config(**kind)), torch.randn(batch, 5, 8), masks(batch)
    for layer in (block, block.attention):
        alone = torch.cat([layer(x[i : i + 1], mask[i])[0] for i in range(batch)])
        torch.testing.assert_close(layer(x, mask)[0], alone)
        torch.testing.assert_close(layer(x, mask[:, None])[0], alone)
        torch.testing.assert_close(layer(x, mask[:, None].expand(-1, 2, -1, -1))[0], alone)


def test_a_mask_of_numbers_need_not_forbid():
    layer, x, added = library.attention_registry.get("mha")(config()), torch.randn(2, 5, 8), torch.randn(2, 5, 5)
    q, k, v = (each(x).view(2, 5, 2, 4).transpose(1, 2) for each in (layer.q_proj, layer.k_proj, layer.v_proj))
    mixed = (q @ k.mT / 2 + added[:, None]).softmax(-1) @ v
    torch.testing.assert_close(layer(x, added)[0], layer.o_proj(mixed.transpose(1, 2).flatten(2)))

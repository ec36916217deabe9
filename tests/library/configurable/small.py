"""Small blocks of every make, and the calls that decode with them."""

from itertools import product

import torch

from residual_edu import BlockConfig, attention_mask

SIZES = {"d_model": 16, "n_heads": 4, "n_kv_heads": 2, "d_ff": 12, "max_seq_len": 16, "window_size": 3}
SIZES |= {"kv_lora_rank": 6, "rope_dim": 2}
ATTENTIONS = ["mha", "gqa", "sliding_window_gqa", "mla", "none"]
FFNS = ["standard", "gated", "relu2", "gated_relu2", "none"]
NORMS = ["layer_norm", "rms_norm"]
POSITIONS = ["rope", "sinusoidal", "alibi", "none"]
LAST = list(product(NORMS, [True, False], [True, False]))  # norm, pre_norm and bias
# 200 of all 800: whichever four of the six options one looks at, they take all their values together.
GRID = [
    (attention, ffn, position, *LAST[one])
    for (i, attention), (j, ffn), (k, position) in product(*map(enumerate, (ATTENTIONS, FFNS, POSITIONS)))
    for one in ((i + j + k) % 4, 7 - (i + j + k) % 4)
]


def config(**changes):
    return BlockConfig(**(SIZES | changes))


def causal(new, start=0):
    return attention_mask(new, start + new, causal=True)


def in_chunks(block, x, size):
    """The outputs of ``block`` for ``x``, ``size`` positions a call, each call masked as its place asks."""
    cache, outputs = None, []
    for start in range(0, x.shape[1], size):
        piece = x[:, start : start + size]
        y, cache = block(piece, causal(piece.shape[1], start), cache)
        outputs.append(y)
    return torch.cat(outputs, dim=1)

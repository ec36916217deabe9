"""Whole blocks, each next to its kind: those of torch, and of timm and x-transformers where they are installed.

    python -m benchmarks.blocks                # both sizes, forward, and forward with backward
    python -m benchmarks.blocks --rounds 100
    python -m benchmarks.blocks --pairs --size "B32 T16 C64"    # each of ours with each of its kind, two at a time

Pre-norm attention and an MLP four times as wide, float32, one thread; an ``Encoder`` of x-transformers has one more
norm behind them. The first column is the median of the ratios to
``torch.nn.TransformerEncoderLayer``, round by round; the second is the share of this machine's matrix-multiply peak,
measured in the same rounds, that the block's matrix products reach.
"""

import argparse
import statistics
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.gradient_flow import Block
from benchmarks.interleave import in_pairs, in_turn, ratio
from residual_edu import (
    MLP,
    AdaLNZeroResidualBlock,
    Attention,
    LayerNorm,
    QKVSequenceMixer,
    ResidualBlock,
    RMSNorm,
    ViT5Attention,
    ViT5ResidualBlock,
)

SIZES = {"B8 T256 C256": (8, 256, 256, 8), "B32 T16 C64": (32, 16, 64, 4)}  # batch, positions, channels, heads
POSITIONS = {width: positions for _, positions, width, _ in SIZES.values()}
BASE = "torch TransformerEncoderLayer"
FUSED = "the same in evaluation, fused"  # forward alone: with a graph it is the same as above
PEAK = 1024  # side of the square matrices whose product is taken for the machine's peak
PEAK_RUN = ("peak", "peak")
A_RUN = 4096  # positions that are worked on before the clock is read

Forward = Callable[[Tensor], Tensor]


def attention(width: int, heads: int) -> Callable[[], nn.Module]:
    """Return what builds the mixer that all blocks of this library have here."""
    inner = partial(Attention, width, heads, apply_qk_norm=False, use_rope=False)
    return partial(QKVSequenceMixer, width, inner, qkv_bias=True, out_proj_bias=True)


def mlp(width: int) -> Callable[[], nn.Module]:
    """Return what builds the MLP that all blocks of this library have here."""
    return partial(MLP, width, "gelu", nn.Identity, expansion_factor=4.0, bias=True)


def residual_block(width: int, heads: int) -> nn.Module:
    """Return the plain pre-norm block."""
    norm, off = partial(LayerNorm, width), nn.Identity
    return ResidualBlock(attention(width, heads), norm, off, off, mlp(width), norm, off)


def adaln_zero_block(width: int, heads: int) -> nn.Module:
    """Return the block of diffusion transformers."""
    norm = partial(LayerNorm, width, elementwise_affine=False)
    return AdaLNZeroResidualBlock(attention(width, heads), norm, mlp(width), norm, nn.Identity, nn.Identity, width)


def scaled_block(width: int, heads: int) -> nn.Module:
    """Return ViT-5's block of the parts that timm's has: LayerNorm, plain attention, LayerScale."""
    norm = partial(LayerNorm, width)
    return ViT5ResidualBlock(attention(width, heads), norm, mlp(width), norm, width)


def vit5_block(width: int, heads: int) -> nn.Module:
    """Return ViT-5's block as it is meant: RMSNorm, normalised queries and keys, rotary positions, LayerScale."""
    side = int(POSITIONS[width] ** 0.5)
    mixer = partial(ViT5Attention, width, heads, side, side, 0, False, qk_norm=partial(RMSNorm, width // heads))
    norm = partial(RMSNorm, width)
    return ViT5ResidualBlock(mixer, norm, mlp(width), norm, width)


def plain(width: int, heads: int) -> dict[str, Forward]:
    """Return the plain pre-norm blocks; torch's twice, since in evaluation it runs fused."""
    layer = partial(nn.TransformerEncoderLayer, width, heads, 4 * width, dropout=0.0, activation="gelu")
    found: dict[str, Forward] = {BASE: layer(batch_first=True, norm_first=True)}
    found[FUSED] = layer(batch_first=True, norm_first=True).eval()
    found["the kernels alone, no check, no option"] = Block(width, heads)
    if find_spec("timm"):
        from timm.models import vision_transformer

        found["timm Block"] = vision_transformer.Block(width, heads, qkv_bias=True)
    ours = residual_block(width, heads)
    return {**found, **encoder(width, heads), "ResidualBlock": lambda x: ours(x, None)}


def scaled(width: int, heads: int) -> dict[str, Forward]:
    """Return the blocks with LayerScale."""
    found: dict[str, Forward] = {}
    if find_spec("timm"):
        from timm.models import vision_transformer

        found["timm Block, LayerScale"] = vision_transformer.Block(width, heads, qkv_bias=True, init_values=1e-4)
    found.update(encoder(width, heads, use_layerscale=True))
    return {**found, "ViT5ResidualBlock of timm's parts": scaled_block(width, heads)}


def vit5(width: int, heads: int) -> dict[str, Forward]:
    """Return the blocks with RMSNorm, rotary positions, normalised queries and keys, and LayerScale."""
    found: dict[str, Forward] = {}
    if find_spec("timm"):
        from timm.layers import RmsNorm, RotaryEmbeddingCat
        from timm.models.eva import EvaBlock

        side = int(POSITIONS[width] ** 0.5)
        rope = RotaryEmbeddingCat(width // heads, in_pixels=False, feat_shape=[side, side]).get_embed()
        extras = {"norm_layer": RmsNorm, "qk_norm": True, "init_values": 1e-4, "num_prefix_tokens": 0}
        found["timm EvaBlock, the same"] = partial(EvaBlock(width, heads, **extras), rope=rope)
    same = {"use_rmsnorm": True, "rotary_pos_emb": True, "rotary_emb_dim": width // heads, "attn_qk_norm": True}
    found.update(encoder(width, heads, use_layerscale=True, verbose=False, **same))
    return {**found, "ViT5ResidualBlock": vit5_block(width, heads)}


def modulated(width: int, heads: int, batch: int) -> dict[str, Forward]:
    """Return the blocks whose norms and gates a condition makes."""
    ours, condition = adaln_zero_block(width, heads), torch.randn(batch, width)
    adaptive = {"use_adaptive_layernorm": True, "use_adaptive_layerscale": True, "dim_condition": width}
    theirs = {name: partial(block, condition=condition) for name, block in encoder(width, heads, **adaptive).items()}
    return {**theirs, "AdaLNZeroResidualBlock": lambda x: ours(x, condition)}


def encoder(width: int, heads: int, **options: Any) -> dict[str, Forward]:
    """Return an encoder of x-transformers, one block deep, where it is installed."""
    if not find_spec("x_transformers"):
        return {}
    from x_transformers import Encoder

    made = Encoder(dim=width, depth=1, heads=heads, attn_dim_head=width // heads, attn_flash=True, **options)
    return {f"x-transformers Encoder{', the same' if options else ''}": made}


def kinds(batch: int, width: int, heads: int) -> dict[str, dict[str, Forward]]:
    """Return each kind of block, ours last, as functions of the stream alone."""
    return {
        "plain": plain(width, heads),
        "LayerScale": scaled(width, heads),
        "RMSNorm, rotary positions, normalised queries and keys, LayerScale": vit5(width, heads),
        "AdaLN-Zero": modulated(width, heads, batch),
    }


def forward_only(block: Forward, x: Tensor) -> None:
    """Run ``block`` without a graph."""
    with torch.no_grad():
        block(x)


def with_backward(block: Forward, x: Tensor) -> None:
    """Run ``block`` there and back."""
    block(x).sum().backward()


def products(block: Forward, x: Tensor, backward: bool) -> int:
    """Return the floating-point operations of the matrix products; with a graph, since a fused kernel hides them."""
    with FlopCounterMode(display=False) as counter:
        y = block(x)
        if backward:
            y.sum().backward()
    return counter.get_total_flops()


def measure(size: str, rounds: int) -> None:
    """Print the tables of one size."""
    batch, positions, width, heads = SIZES[size]
    x, square = torch.randn(batch, positions, width, requires_grad=True), torch.randn(PEAK, PEAK)
    for title, way in (("forward", forward_only), ("forward and backward", with_backward)):
        blocks = {
            (kind, name): block for kind, found in kinds(batch, width, heads).items() for name, block in found.items()
        }
        if way is with_backward:
            del blocks["plain", FUSED]
        runs = {key: partial(way, block, x) for key, block in blocks.items()}
        flops = {key: products(block, x, way is with_backward) for key, block in blocks.items()}
        peak_run = {PEAK_RUN: partial(torch.mm, square, square)}
        times = in_turn({**runs, **peak_run}, rounds, max(1, A_RUN // (batch * positions)))
        peak = 2 * PEAK**3 / statistics.median(times[PEAK_RUN])
        print(f"\n{f'{size}, {title}':46}{'ratio':>8}{'of peak':>9}")
        for kind, name in runs:
            share = flops[kind, name] / statistics.median(times[kind, name]) / peak
            print(f"{name:46}{ratio(times, (kind, name), ('plain', BASE)):8.2f}{share:9.0%}", flush=True)


def measure_pairs(size: str, rounds: int) -> None:
    """Print what each block of ours takes of the time of each of its kind, alone with it."""
    batch, positions, width, heads = SIZES[size]
    x = torch.randn(batch, positions, width, requires_grad=True)
    for title, way in (("forward", forward_only), ("forward and backward", with_backward)):
        print(f"\n{f'{size}, {title}':80}{'median':>8}{'quartiles':>14}")
        for found in kinds(batch, width, heads).values():
            *peers, (ours, block) = found.items()
            for name, peer in peers:
                if way is with_backward and name == FUSED:
                    continue
                both = in_pairs(partial(way, block, x), partial(way, peer, x), rounds, A_RUN // (batch * positions))
                low, median, high = statistics.quantiles(both, n=4)
                print(f"{f'{ours} / {name}':80}{median:8.3f}{low:7.2f}{high:7.2f}", flush=True)


def main() -> None:
    """Measure both sizes, or one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--size", choices=SIZES, help="one of the sizes instead of both")
    parser.add_argument("--pairs", action="store_true", help="compare ours with one peer at a time")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for size in [arguments.size] if arguments.size else SIZES:
        (measure_pairs if arguments.pairs else measure)(size, arguments.rounds)


if __name__ == "__main__":
    main()

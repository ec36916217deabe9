"""What mixing costs against length: attention, a long convolution and a selective scan, all causal, there and back.

    python -m benchmarks.mixers                        # 256 to 16384 positions
    python -m benchmarks.mixers --longest 2048 --batch 4

64 channels, one sequence unless told, float32, one thread; the operators alone, without the linear maps around them.
Times are medians; each operator's share of the time that attention took is the median over the rounds. A slope is that
of the straight line through the logarithms of times and lengths, from 1024 positions on: 1 is linear, 2 quadratic.
"""

import argparse
import statistics
from collections.abc import Callable
from math import log2

import torch
from torch import Tensor

from benchmarks.interleave import in_turn, ratio
from residual_edu import chunked_scan, fused_attention, long_convolution

CHANNELS, HEADS, STATE = 64, 4, 16
BASE = "causal attention"


def operators(length: int, batch: int) -> dict[str, Callable[[], None]]:
    """Return what runs each operator there and back once on sequences of ``length``."""

    def leaf(*shape: int) -> Tensor:
        return torch.randn(*shape).requires_grad_()

    q, k, v = (leaf(batch, HEADS, length, CHANNELS // HEADS) for _ in range(3))
    x, kernel = leaf(batch, length, CHANNELS), leaf(1, length, CHANNELS)
    written, reads, writes = (
        leaf(batch, length, HEADS, CHANNELS // HEADS),
        leaf(batch, length, STATE),
        leaf(batch, length, STATE),
    )
    steps, fade = torch.rand(batch, length, HEADS).requires_grad_(), -torch.rand(HEADS)
    return {
        BASE: lambda: fused_attention(q, k, v, is_causal=True).sum().backward(),
        "long convolution": lambda: long_convolution(x, kernel, "causal").sum().backward(),
        "selective scan": lambda: chunked_scan(written, steps, fade, writes, reads).sum().backward(),
    }


def slope(lengths: list[int], seconds: list[float]) -> float:
    """Return the exponent of the power of the length that the time follows, from 1024 positions on."""
    points = [(log2(length), log2(time)) for length, time in zip(lengths, seconds, strict=True) if length >= 1024]
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def main() -> None:
    """Measure all lengths."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longest", type=int, default=16384)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    lengths = [2**n for n in range(8, arguments.longest.bit_length())]
    seconds: dict[str, list[float]] = {name: [] for name in operators(lengths[0], arguments.batch)}
    print(f"{'positions':10}" + "".join(f"{name + ', ms':>24}{'share':>8}" for name in seconds))
    for length in lengths:
        times = in_turn(operators(length, arguments.batch), arguments.rounds, repeats=max(1, 2048 // length))
        cells = ""
        for name in seconds:
            seconds[name].append(statistics.median(times[name]))
            cells += f"{1000 * seconds[name][-1]:24.2f}{ratio(times, name, BASE):8.3f}"
        print(f"{length:<10}{cells}", flush=True)
    if len(lengths) > 3:  # two of them from 1024 on
        print(f"{'slope':10}" + "".join(f"{slope(lengths, seconds[name]):24.2f}{'':8}" for name in seconds))


if __name__ == "__main__":
    main()

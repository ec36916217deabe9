"""What recording gradient flow costs a training step, next to other ways of looking inside a network.

    python -m benchmarks.gradient_flow                       # depths 12, 48 and 96, width 128
    python -m benchmarks.gradient_flow --depths 48 --rounds 100
    python -m benchmarks.gradient_flow --every 2             # the recorder records every second step

A step is forward, backward and AdamW of pre-norm attention blocks on 8 sequences of 64, float32, one thread.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.interleave import Way, interleave, print_table
from residual_edu.gradient_flow import GradientFlowRecorder

BATCH, TOKENS, HEADS = 8, 64, 4


class Block(nn.Module):
    """Pre-norm attention and feed-forward, from torch's own kernels."""

    def __init__(self, width: int, heads: int = HEADS) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def attention(self, x: Tensor) -> Tensor:
        """Mix positions."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2))

    def forward(self, x: Tensor) -> Tensor:
        """Add both branches."""
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def training_step(depth: int, width: int) -> tuple[nn.Sequential, Callable[[], None]]:
    """Return a network and a function that takes one training step with it."""
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(width) for _ in range(depth)))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    x = torch.randn(BATCH, TOKENS, width, requires_grad=True)

    def step() -> None:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        x.grad = None

    return model, step


def repeat(step: Callable[[], None], times: int) -> None:
    """Take several steps."""
    for _ in range(times):
        step()


@contextmanager
def activation_statistics(model: nn.Module) -> Iterator[None]:
    """Mean and standard deviation of what each layer with weights puts out, as fastai's ActivationStats takes them."""
    found: list[tuple[float, float]] = []
    layers = [m for m in model.modules() if not list(m.children()) and list(m.parameters())]
    hooks = [
        layer.register_forward_hook(lambda _, args, y: found.append((y.mean().item(), y.std().item())))
        for layer in layers
    ]
    yield
    for hook in hooks:
        hook.remove()


@contextmanager
def full_backward_hooks(model: nn.Sequential) -> Iterator[None]:
    """The norms of the gradients at both ends of each block, from module hooks."""
    found: list[list[Tensor]] = []

    def look(block: nn.Module, before: tuple[Tensor | None, ...], behind: tuple[Tensor | None, ...]) -> None:
        found.append([g.norm() for g in (*before, *behind) if g is not None])

    hooks = [block.register_full_backward_hook(look) for block in model]
    yield
    for hook in hooks:
        hook.remove()


def ways(model: nn.Sequential, every: int = 1) -> dict[str, Way]:
    """Return what is compared, by name."""
    return {
        "nothing (the noise)": nullcontext,
        "GradientFlowRecorder": partial(GradientFlowRecorder, model, model, every),
        "full backward hooks, two norms": lambda: full_backward_hooks(model),
        "activation mean and std": lambda: activation_statistics(model),
    }


def peak_memory(name: str, depth: int, width: int) -> float:
    """Return the megabytes that a process of its own reached in five steps, one way (on Linux)."""
    command = [sys.executable, "-m", "benchmarks.gradient_flow", "--peak", name]
    command += ["--depths", str(depth), "--width", str(width)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def print_peak(name: str, depth: int, width: int) -> None:
    """Take five steps, one way, and print the megabytes reached."""
    model, step = training_step(depth, width)
    way = ways(model)[name]
    for _ in range(5):
        with way():
            step()
    # Not resource's ru_maxrss, which a child inherits from the process that started it.
    print(int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1]) / 1024)


def main() -> None:
    """Print a table for each depth: processor time, then memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depths", type=int, nargs="+", default=[12, 48, 96])
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.peak:
        return print_peak(chosen.peak, chosen.depths[0], chosen.width)
    for depth in chosen.depths:
        model, step = training_step(depth, chosen.width)
        print(f"\ndepth {depth}, width {chosen.width}, {chosen.rounds} rounds, every {chosen.every}", flush=True)
        steps = partial(repeat, step, chosen.every)
        print_table(interleave(steps, nullcontext, ways(model, chosen.every), chosen.rounds))
        bare = peak_memory("nothing (the noise)", depth, chosen.width)
        recorded = peak_memory("GradientFlowRecorder", depth, chosen.width)
        print(f"peak memory: {bare:.0f} MB bare, {recorded:.0f} MB recorded ({100 * (recorded / bare - 1):+.1f} %)")
    return None


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    main()

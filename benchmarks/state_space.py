"""A diagonal state space as a loop and as a convolution with its kernel: a step of training, and one more number.

    python -m benchmarks.state_space                   # 64 to 4096 positions
    python -m benchmarks.state_space --longest 1024 --rounds 3

16 channels of 32 complex numbers each, float32, one thread. "Training" is forward and backward of a batch of eight
sequences, the kernel made anew; "one more" is the next output behind as many positions, as in generation, where the
kernel is known and the past is kept. A share is the loop's time over that of the convolution, the median of the rounds.
"""

import argparse
import statistics
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.interleave import in_turn, ratio
from residual_edu import long_convolution

CHANNELS, STATES, BATCH, DT = 16, 32, 8, 1 / 64
LOOP, CONVOLUTION = "training, loop", "training, convolution"
STEP, SUM = "one more, loop", "one more, convolution"


def kernel(a: Tensor, C: Tensor, taps: int) -> Tensor:
    """Return the taps C A^m B, (1, taps, channels)."""
    powers = (a * DT * torch.arange(taps)[:, None, None]).exp()
    return torch.einsum("mcn,cn->mc", powers, C * written(a)).real[None]


def written(a: Tensor) -> Tensor:
    """Return B for b = 1."""
    return ((a * DT).exp() - 1) / a


def step(A: Tensor, B: Tensor, C: Tensor, state: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the next state, (batch, channels, states), and the output, (batch, channels)."""
    state = A * state + B * x[..., None]
    return state, (C * state).sum(-1).real


def ways(length: int) -> dict[str, Callable[[], object]]:
    """Return both ways through a step of training, and both ways to compute one more output."""
    a = torch.complex(-torch.rand(CHANNELS, STATES), 3.14 * torch.arange(STATES).expand(CHANNELS, STATES))
    C = torch.randn(CHANNELS, STATES, dtype=torch.cfloat).requires_grad_()
    x, taps = torch.randn(BATCH, length, CHANNELS), kernel(a, C, length)[0].detach().flip(0)
    A, B, fixed, empty = (a * DT).exp(), written(a), C.detach(), torch.zeros(BATCH, CHANNELS, STATES) * 1j
    a.requires_grad_()

    def loop() -> None:
        A, B, state, outputs = (a * DT).exp(), written(a), empty, []
        for number in x.unbind(1):
            state, y = step(A, B, C, state, number)
            outputs.append(y)
        torch.stack(outputs, 1).sum().backward()

    return {
        LOOP: loop,
        CONVOLUTION: lambda: long_convolution(x, kernel(a, C, length), "causal").sum().backward(),
        STEP: lambda: step(A, B, fixed, empty[:1], x[:1, -1]),
        SUM: lambda: (taps * x[0]).sum(0),
    }


def main() -> None:
    """Measure all lengths."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longest", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"{'positions':10}" + "".join(f"{name + ', ms':>28}" for name in ways(1)) + f"{'shares':>18}")
    for length in [4**n for n in range(3, 12) if 4**n <= arguments.longest]:
        times = in_turn(ways(length), arguments.rounds, repeats=max(2, 2048 // length))
        cells = "".join(f"{1000 * statistics.median(each):28.3f}" for each in times.values())
        print(f"{length:<10}{cells}{ratio(times, LOOP, CONVOLUTION):9.2f}{ratio(times, STEP, SUM):9.2f}", flush=True)


if __name__ == "__main__":
    main()

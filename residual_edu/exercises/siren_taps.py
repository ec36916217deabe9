"""Exercise on implicit kernels: compute every tap by a network of sines."""

from collections.abc import Callable

import torch
from torch import Tensor

from residual_edu.exercises.exercise import Exercise, Mistake, Property, close, draw, run, same_gradients

Taps = Callable[[Tensor, Tensor, Tensor, int], Tensor]


def positions(length: int) -> Tensor:
    """Return 2 length - 1 positions from -1 to 1."""
    return torch.linspace(-1, 1, 2 * length - 1, dtype=torch.float64)


def taps(
    first: Tensor,
    hidden: Tensor,
    last: Tensor,
    length: int,
    where: Callable[[int], Tensor] = positions,
    waves: tuple[Callable[[Tensor], Tensor], ...] = (torch.sin, torch.sin, lambda k: k),
) -> Tensor:
    """Return the taps at the positions ``where``; ``waves`` are the nonlinearities after the three maps."""
    h = waves[0](where(length)[:, None] * first)
    return waves[2](waves[1](h @ hidden.T) @ last)


def network(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Return the weights of a small network, in float64."""
    return 3 * draw(5, seed=seed), draw(5, 5, seed=seed + 1), draw(5, seed=seed + 2)


def for_length(f: Taps, length: int) -> Callable[..., Tensor]:
    """Return ``f`` as a function of the weights alone."""
    return lambda first, hidden, last: f(first, hidden, last, length)


def _matches(f: Taps, *lengths: int) -> None:
    for length in lengths:
        weights = network()
        wanted = for_length(taps, length)(*weights)
        close(run(for_length(f, length), *weights), wanted, f"the kernel for length {length}")


def _one_sine(f: Taps) -> None:
    one = torch.ones(1).double()
    found = run(for_length(f, 3), one, one[:, None], one)
    close(found, positions(3).sin().sin(), "the kernel of three weights of 1, sin(sin(p)),")


LEARNED = dict(zip(("first", "hidden", "last"), network(), strict=True)) | {"length": 4}


def wrong(**changes: object) -> Taps:
    """Return an answer that differs in ``where`` or ``waves``."""
    return lambda first, hidden, last, length: taps(first, hidden, last, length, **changes)  # type: ignore[arg-type]


def still(h: Tensor) -> Tensor:
    """Return ``h``: no nonlinearity."""
    return h


SIREN_TAPS = Exercise(
    reference=taps,
    also_right=(lambda first, hidden, last, length: taps(first, hidden, last, length).clone(),),
    observe=lambda f: [for_length(f, length)(*network(seed=7)) for length in (4, 7)],
    properties=(
        Property("three weights of 1: the tap at p is sin(sin(p))", _one_sine),
        Property("a signal of 5 needs 9 taps, at -1 to 1", lambda f: _matches(f, 5)),
        Property("the same weights give a kernel of any length", lambda f: _matches(f, 2, 12)),
        Property("gradients reach all weights", same_gradients(taps, LEARNED), hints=()),
    ),
    mistakes=(
        Mistake(wrong(waves=(torch.cos, torch.cos, still)), "cosines", "Use `torch.sin`; at position 0 it is 0."),
        Mistake(
            wrong(waves=(torch.sin, still, still)),
            "one sine alone",
            "There is a sine after the hidden map too; without it the two maps are one.",
        ),
        Mistake(
            wrong(waves=(still, torch.sin, still)),
            "no sine after the first map",
            "Positions go through `first`, then through a sine, then through `hidden`.",
        ),
        Mistake(
            wrong(waves=(torch.sin, torch.sin, torch.sin)),
            "a sine after the last map too",
            "The last map is linear: a tap may be larger than 1.",
        ),
        Mistake(
            wrong(where=lambda n: torch.linspace(0, 1, 2 * n - 1, dtype=torch.float64)),
            "positions from 0 to 1",
            "0 stands in the middle, at the tap of lag 0: run from -1 to 1.",
        ),
        Mistake(
            wrong(where=lambda n: torch.arange(1 - n, n, dtype=torch.float64)),
            "positions counted in whole numbers",
            "Divide by length - 1, so that they run from -1 to 1 at any length.",
        ),
        Mistake(
            wrong(where=lambda n: torch.linspace(-1, 1, n, dtype=torch.float64)),
            "as many taps as positions",
            "For each end to reach the other there must be 2 · length - 1.",
        ),
        Mistake(
            wrong(where=lambda n: torch.linspace(-1, 1, 2 * n, dtype=torch.float64)),
            "an even number of taps, without one for lag 0",
            "2 · length - 1 positions have a middle one, 0.",
        ),
        Mistake(
            lambda first, hidden, last, length: taps(first, hidden.T, last, length),
            "the hidden map transposed",
            "As in `nn.Linear`, rows are outputs: `h @ hidden.T` for positions in rows.",
        ),
    ),
    hints=(
        "First the positions: how many are there, and which one is the tap of lag 0?",
        "Positions are rows, features columns: `p[:, None] * first`. Which of the three maps are followed by a sine?",
    ),
)

EXERCISES = {"siren_taps": SIREN_TAPS}

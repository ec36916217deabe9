"""Exercise on the scan as a loop: a state of N numbers that is kept in part, written with B and read with C."""

from collections.abc import Callable
from math import log
from typing import Any

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Property, close, draw, run, same_gradients

Scan = Callable[[Tensor, Tensor, float, Tensor, Tensor], Tensor]
Step = Callable[[Tensor, Tensor, Tensor, float, Tensor], Tensor]  # the state, a number, its step, A, its B


def step(S: Tensor, x: Tensor, dt: Tensor, A: float, B: Tensor) -> Tensor:
    """Return the state after a position."""
    return (dt * A).exp() * S + dt * x * B


def stepping(step: Step = step, early: bool = False, exchanged: bool = False) -> Scan:
    """Return a scan whose state becomes ``step(S, x, dt, A, B)``, read after the step, or ``early``."""

    def scan(x: Tensor, dt: Tensor, A: float, B: Tensor, C: Tensor) -> Tensor:
        B, C = (C, B) if exchanged else (B, C)
        state, outputs = torch.zeros_like(B[0]), []
        for t in range(len(x)):
            after = step(state, x[t], dt[t], A, B[t])
            outputs.append(C[t] @ (state if early else after))
            state = after
        return torch.stack(outputs)

    return scan


scan_by_hand = stepping()


def follows(x: Tensor, dt: Tensor, A: float, B: Tensor, C: Tensor) -> Callable[[Scan], None]:
    """Return the test of one input."""
    wanted = scan_by_hand(x, dt, A, B, C)
    return lambda f: close(run(lambda x, dt, B, C: f(x, dt, A, B, C), x, dt, B, C, like=wanted), wanted)


def _drawn(time: int, size: int, seed: int = 0) -> dict[str, Any]:
    x, dt = draw(time, seed=seed), draw(time, seed=seed + 1).abs() + 0.1
    return {"x": x, "dt": dt, "A": -0.7, "B": draw(time, size, seed=seed + 2), "C": draw(time, size, seed=seed + 3)}


def _any(f: Scan) -> None:
    for time, size in ((9, 4), (40, 2), (1, 3), (5, 1)):
        follows(**_drawn(time, size, seed=5))(f)


def _numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


ONE = torch.ones(4, 1, dtype=torch.float64)
PLACES = _numbers(1.0, 0.0, 0.0, 1.0, 1.0, 1.0).view(3, 2), _numbers(1.0, 1.0, 0.0, 1.0, 1.0, 1.0).view(3, 2)

SCAN_BY_HAND = Exercise(
    reference=scan_by_hand,
    observe=lambda f: f(*_drawn(6, 3, seed=9).values()),
    properties=(
        Property(
            "8, 4, 2, 0 with all dt 1, half kept, B and C of 1: 8, 8, 6, 3",
            follows(_numbers(8.0, 4.0, 2.0, 0.0), _numbers(1.0, 1.0, 1.0, 1.0), -log(2), ONE, ONE),
        ),
        Property(
            "3 written with (1, 0), 5 with (0, 1), nothing fading: (1, 1) reads 8",
            follows(_numbers(3.0, 5.0, 0.0), _numbers(1.0, 1.0, 1.0), 0.0, *PLACES),
        ),
        Property("any numbers, any dt, many positions and one", _any),
        Property(
            "a large step forgets what was there",
            follows(_numbers(5.0, 3.0, 1.0), _numbers(1.0, 600.0, 600.0), -1.0, *PLACES),
        ),
        Property("gradients reach x, dt, B and C", same_gradients(scan_by_hand, _drawn(6, 3)), hints=()),
    ),
    mistakes=(
        Mistake(
            stepping(early=True),
            "a state that is read before it is written",
            "Update the state first, then read it with C.",
        ),
        Mistake(stepping(exchanged=True), "B and C exchanged", "B says where x is written, C where it is read."),
        Mistake(
            stepping(lambda S, x, dt, A, B: (dt * A).exp() * (S + dt * x * B)),
            "a factor on what is only being written",
            "Multiply the old state, then add dt · x · B.",
        ),
        Mistake(
            stepping(lambda S, x, dt, A, B: (dt * A).exp() * S + x * B),
            "a number that is written without its step",
            "The step is a factor of what is written too.",
        ),
    ),
    hints=(
        "Keep one tensor of N numbers, zeros at first, and go through the positions. What happens to it first?",
        "At position t the state is multiplied by what a step of dt[t] keeps; then a vector is added; then one product "
        "of two vectors is the output.",
    ),
)

EXERCISES = {"scan_by_hand": SCAN_BY_HAND}

"""Exercise on the scan as a loop: a state of N numbers that is kept in part, written with B and read with C."""

from collections.abc import Callable
from math import log

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Property, close, draw, run, same_gradients

Scan = Callable[[Tensor, Tensor, float, Tensor, Tensor], Tensor]
Step = Callable[[Tensor, Tensor, Tensor, float, Tensor], Tensor]  # the state, a number, its step, A, its B


def stepping(step: Step, early: bool = False, exchanged: bool = False) -> Scan:
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


def kept(dt: Tensor, A: float) -> Tensor:
    """Return the factor of what a step keeps."""
    return (dt * A).exp()


scan_by_hand = stepping(lambda s, x, dt, A, B: kept(dt, A) * s + dt * x * B)


def as_a_matrix(x: Tensor, dt: Tensor, A: float, B: Tensor, C: Tensor) -> Tensor:
    """Return the same from all pairs at once."""
    total, later = (dt * A).cumsum(0), torch.ones(len(x), len(x)).triu(1).bool()
    left = (total[:, None] - total).masked_fill(later, -torch.inf).exp()
    return ((C @ B.mT) * left) @ (dt * x)


def by_division(x: Tensor, dt: Tensor, A: float, B: Tensor, C: Tensor) -> Tensor:
    """Divide one running decay by another."""
    total = (dt * A).cumsum(0)[:, None]
    return (total.exp() * ((dt * x)[:, None] * B * (-total).exp()).cumsum(0) * C).sum(-1)


def follows(f: Scan, x: Tensor, dt: Tensor, A: float, B: Tensor, C: Tensor) -> None:
    """Test one input."""
    close(run(lambda x, dt, B, C: f(x, dt, A, B, C), x, dt, B, C, like=x), scan_by_hand(x, dt, A, B, C), "the output")


def numbers(*values: float) -> Tensor:
    """Return the values in float64."""
    return torch.tensor(values, dtype=torch.float64)


def drawn(time: int, size: int, seed: int = 0) -> dict[str, Tensor | float]:
    """Return some inputs by name."""
    x, dt = draw(time, seed=seed), draw(time, seed=seed + 1).abs() + 0.1
    return {"x": x, "dt": dt, "A": -0.7, "B": draw(time, size, seed=seed + 2), "C": draw(time, size, seed=seed + 3)}


def _with(f: Scan, time: int, size: int) -> None:
    given = drawn(time, size, seed=5)
    follows(f, given["x"], given["dt"], -0.7, given["B"], given["C"])  # type: ignore[arg-type]


def _any(f: Scan) -> None:
    _with(f, 9, 4)
    _with(f, 40, 2)


def _smallest(f: Scan) -> None:
    _with(f, 1, 3)
    _with(f, 5, 1)


ONE = torch.ones(4, 1, dtype=torch.float64)
PLACES = numbers(1.0, 0.0, 0.0, 1.0, 1.0, 1.0).view(3, 2), numbers(1.0, 1.0, 0.0, 1.0, 1.0, 1.0).view(3, 2)
LARGE = numbers(5.0, 3.0, 1.0), numbers(1.0, 600.0, 600.0)


def _observe(f: Scan) -> list[Tensor]:
    given = drawn(6, 3, seed=9)
    far = f(*LARGE, -0.7, *PLACES)
    return [f(given["x"], given["dt"], -0.7, given["B"], given["C"]), far]  # type: ignore[arg-type]


SCAN_BY_HAND = Exercise(
    reference=scan_by_hand,
    also_right=(as_a_matrix,),
    observe=_observe,
    properties=(
        Property(
            "8, 4, 2, 0 with all dt 1, half kept, B and C of 1: 8, 8, 6, 3",
            lambda f: follows(f, numbers(8.0, 4.0, 2.0, 0.0), numbers(1.0, 1.0, 1.0, 1.0), -log(2), ONE, ONE),
        ),
        Property(
            "3 written with (1, 0), 5 with (0, 1), nothing fading: (1, 1) reads 8",
            lambda f: follows(f, numbers(3.0, 5.0, 0.0), numbers(1.0, 1.0, 1.0), 0.0, *PLACES),
        ),
        Property("any numbers, any dt, and many positions", _any),
        Property("a single position, and a state of one number", _smallest),
        Property("a large step forgets what was there", lambda f: follows(f, *LARGE, -1.0, *PLACES)),
        Property("gradients reach x, dt, B and C", same_gradients(scan_by_hand, drawn(6, 3)), hints=()),
    ),
    mistakes=(
        Mistake(
            stepping(lambda s, x, dt, A, B: kept(dt, A) * s + dt * x * B, early=True),
            "a state that is read before it is written",
            "Update the state first, then read it with C.",
        ),
        Mistake(
            stepping(lambda s, x, dt, A, B: kept(dt, A) * s + dt * x * B, exchanged=True),
            "B and C exchanged",
            "B says where x is written, C where it is read.",
        ),
        Mistake(
            stepping(lambda s, x, dt, A, B: kept(dt, A) * (s + dt * x * B)),
            "a factor on what is only being written",
            "Multiply the old state, then add dt · x · B.",
        ),
        Mistake(
            stepping(lambda s, x, dt, A, B: kept(dt, A) * s + x * B),
            "a number that is written without its step",
            "The step is a factor of what is written too.",
        ),
        Mistake(
            stepping(lambda s, x, dt, A, B: kept(dt, A) * s + (kept(dt, A) - 1) / A * x * B if A else s + dt * x * B),
            "the exact step, which writes (exp(dt · A) − 1) / A",
            "Here dt · x · B is written.",
        ),
        Mistake(
            stepping(lambda s, x, dt, A, B: (1 + dt * A) * s + dt * x * B),
            "Euler's factor, 1 + dt · A",
            "What is kept has the exact factor, exp(dt · A).",
        ),
        Mistake(
            stepping(lambda s, x, dt, A, B: (-dt * A).exp() * s + dt * x * B),
            "a state that grows",
            "A is negative already: exp(dt · A), without another minus.",
        ),
        Mistake(
            by_division,
            "one running decay divided by another",
            "A large dt makes that 0 · ∞: go through the positions one by one.",
        ),
        Mistake(
            stepping(lambda s, x, dt, A, B: dt * x * B), "a state that is not carried on", "Add to the state before."
        ),
        Mistake(
            stepping(lambda s, x, dt, A, B: s + dt * x * B),
            "a state that never fades",
            "Multiply the old state by exp(dt · A).",
        ),
    ),
    hints=(
        "Keep one tensor of N numbers, zeros at first, and go through the positions. What happens to it first?",
        "At position t the state is multiplied by what a step of dt[t] keeps; then a vector is added; then one product "
        "of two vectors is the output.",
    ),
)

EXERCISES = {"scan_by_hand": SCAN_BY_HAND}

"""Exercise on the selective scan: one state of one number, with a step size for each position."""

from collections.abc import Callable
from math import log

import torch
from torch import Tensor

from residual_course.checking.exercise import Exercise, Mistake, Property, close, draw, run, same_gradients

Scan = Callable[[Tensor, Tensor, float], Tensor]
Step = Callable[[Tensor, Tensor, Tensor, float], Tensor]  # the memory, a number, its step, A


def stepping(step: Step, read_first: bool = False) -> Scan:
    """Return a scan whose state becomes ``step(memory, x, dt, A)`` at each position, read after the step or before."""

    def scan(x: Tensor, dt: Tensor, A: float) -> Tensor:
        memory, outputs = torch.zeros_like(x[0]), []
        for number, width in zip(x, dt, strict=True):
            after = step(memory, number, width, A)
            outputs.append(memory if read_first else after)
            memory = after
        return torch.stack(outputs)

    return scan


leaky_scan = stepping(lambda s, x, dt, A: (dt * A).exp() * s + dt * x)


def one_step_late(x: Tensor, dt: Tensor, A: float) -> Tensor:
    """Decay by the step of the position before."""
    memory, outputs = torch.zeros_like(x[0]), []
    for number, width, late in zip(x, dt, torch.cat([dt[:1], dt[:-1]]), strict=True):
        memory = (late * A).exp() * memory + width * number
        outputs.append(memory)
    return torch.stack(outputs)


def by_division(x: Tensor, dt: Tensor, A: float) -> Tensor:
    """Divide one cumulative decay by another."""
    total = (dt * A).cumsum(0)
    return total.exp() * (dt * x * (-total).exp()).cumsum(0)


def first_as_it_is(x: Tensor, dt: Tensor, A: float) -> Tensor:
    """Start from the first input instead of a state of 0."""
    memory, outputs = x[0], [x[0]]
    for number, width in zip(x[1:], dt[1:], strict=True):
        memory = (width * A).exp() * memory + width * number
        outputs.append(memory)
    return torch.stack(outputs)


def follows(f: Scan, x: Tensor, dt: Tensor, A: float) -> None:
    """Test one input."""
    close(run(lambda x, dt: f(x, dt, A), x, dt, like=x), leaky_scan(x, dt, A), "the memory")


def numbers(*values: float) -> Tensor:
    """Return the values in float64."""
    return torch.tensor(values, dtype=torch.float64)


LEARNED = {"x": draw(6), "dt": draw(6, seed=2).abs(), "A": -0.7}
X, DT = draw(6, seed=3) + 1, draw(6, seed=4).abs() + 0.2
LARGE = numbers(5.0, 3.0, 1.0), numbers(1.0, 600.0, 600.0)

LEAKY_SCAN = Exercise(
    reference=leaky_scan,
    also_right=(stepping(lambda s, x, dt, A: dt * x + s * torch.exp(A * dt)),),
    observe=lambda f: [run(lambda x, dt: f(x, dt, -0.7), *given) for given in ((X, DT), LARGE)],
    properties=(
        Property(
            "8, 4, 2, 0 with steps of 1, half kept at each: 8, 8, 6, 3",
            lambda f: follows(f, numbers(8, 4, 2, 0), numbers(1, 1, 1, 1), -log(2)),
        ),
        Property(
            "a step of 0 neither fades nor writes", lambda f: follows(f, numbers(5, 9, 9), numbers(1, 0, 0), -0.7)
        ),
        Property("a large step forgets what was there", lambda f: follows(f, *LARGE, -1.0)),
        Property("any numbers and any steps", lambda f: follows(f, draw(9), draw(9, seed=1).abs(), -0.7)),
        Property("a single number", lambda f: follows(f, numbers(3), numbers(0.5), -0.7)),
        Property("a decay that is a whole number", lambda f: follows(f, draw(5), draw(5, seed=1).abs(), -1)),
        Property("gradients reach the numbers and the steps", same_gradients(leaky_scan, LEARNED), hints=()),
    ),
    mistakes=(
        Mistake(
            stepping(lambda s, x, dt, A: (dt * A).exp() * s + dt * x, read_first=True),
            "a memory that is read before it is written",
            "Update the memory first, then append it.",
        ),
        Mistake(one_step_late, "a fade by the step before", "Position t fades the memory by its own step, dt[t]."),
        Mistake(
            stepping(lambda s, x, dt, A: (dt * A).exp() * (s + dt * x)),
            "a fade of what is only being written",
            "Fade the old memory, then add dt · x.",
        ),
        Mistake(
            stepping(lambda s, x, dt, A: (dt * A).exp() * s + x),
            "a number written in full at every step",
            "The step decides about writing too: add dt · x.",
        ),
        Mistake(
            stepping(lambda s, x, dt, A: (dt * A).exp() * s + (1 - (dt * A).exp()) * x),
            "a running average, which writes 1 − exp(dt · A)",
            "Here dt · x is written.",
        ),
        Mistake(
            stepping(lambda s, x, dt, A: (1 + dt * A) * s + dt * x),
            "a fade by 1 + dt · A, which turns negative at large steps",
            "Take the exponential: exp(dt · A) stays between 0 and 1.",
        ),
        Mistake(
            stepping(lambda s, x, dt, A: (-dt * A).exp() * s + dt * x),
            "a memory that grows",
            "A is negative already: exp(dt · A), without another minus.",
        ),
        Mistake(
            by_division,
            "one running decay divided by another",
            "Large steps make that 0 · ∞: go through the positions one by one.",
        ),
        Mistake(
            lambda x, dt, A: dt * x, "a memory that is not carried on", "Add to the faded memory of the step before."
        ),
        Mistake(
            lambda x, dt, A: (dt * x).cumsum(0), "a sum that never fades", "Multiply the old memory by exp(dt · A)."
        ),
        Mistake(
            first_as_it_is,
            "a memory that starts as the first number",
            "It starts empty, at 0; then dt[0] · x[0] is written.",
        ),
    ),
    hints=(
        "Keep one number, the memory, and go through x and dt side by side. What happens to it first?",
        "At position t the memory is multiplied by what a step of dt[t] keeps; then what is written is added.",
    ),
)

EXERCISES = {"leaky_scan": LEAKY_SCAN}

"""Exercise on paper: the start and the rate that replace a fixed gate under plain gradient descent."""

from collections.abc import Callable
from functools import partial
from typing import Any

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet, value_of

Answer = Callable[[float, float], Any]
CASES = (0.1, 0.03), (0.5, 2.0), (3.0, 0.01)  # a gate and the rate of the network that has it


def identity(one: Any) -> Any:
    """Return ``one``."""
    return one


def pair(f: Answer, g: float, rate: float) -> tuple[float, float]:
    """Return an answer's two numbers."""
    found = f(g, rate)
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise Broken("it did not return two numbers, the factor of the start and the rate")
    first, second = (value_of(partial(identity, one), float) for one in found)
    return first, second


def weights(factor: float, rate: float, g: float = 1.0, steps: int = 3) -> list[float]:
    """Return g · W before and after some steps of descent on (g · W + 1)²/2, where W starts at ``factor`` · 2."""
    weight, found = 2.0 * factor, []
    for _ in range(steps + 1):
        found.append(g * weight)
        weight -= rate * g * (g * weight + 1)
    return found


def _number(f: Answer, place: int) -> None:
    for g, rate in CASES:
        found = pair(f, g, rate)
        wanted = weights(1.0, rate, g)
        got = weights(found[0], found[1]) if place == 0 else weights(g, found[1])
        if place == 0 and not abs(got[0] - wanted[0]) <= 1e-6 * abs(wanted[0]):
            raise Unmet(f"for g = {g:g}, where W starts at 2, V starts at {got[0]:.4g}, and g · W at {wanted[0]:.4g}")
        if place == 1 and not abs(got[1] - wanted[1]) <= 1e-6 * abs(wanted[1] - wanted[0]):
            raise Unmet(
                f"for g = {g:g}, a rate of {rate:g}, the loss (V + 1)²/2 and V = g · W with W = 2: one step moves V "
                f"by {got[1] - got[0]:.4g}, and g · W by {wanted[1] - wanted[0]:.4g}"
            )


WITHOUT_GATE = Exercise(
    reference=lambda g, rate: (g, g * g * rate),
    also_right=(lambda g, rate: [g, rate * g**2],),
    observe=lambda f: [*pair(f, 0.1, 0.03), *pair(f, 3.0, 0.01)],
    properties=(
        Property("V starts where g · W does", lambda f: _number(f, 0)),
        Property("one step moves V as far as g · W", lambda f: _number(f, 1)),
    ),
    mistakes=(
        Mistake(
            lambda g, rate: (g, g * rate),
            "the rate that replaces a gate under Adam",
            "Plain descent does not divide the gradient by its size. How does the gradient of W depend on g?",
        ),
        Mistake(
            lambda g, rate: (g, rate),
            "the rate of W",
            "What does one step do to W, and then to g · W?",
        ),
        Mistake(
            lambda g, rate: (g, rate / g),
            "a rate divided by g",
            "A step of W is multiplied by g before it is a step of V.",
        ),
        Mistake(
            lambda g, rate: (g, rate / g**2),
            "a rate divided by g²",
            "Which of the two networks takes the smaller steps, if g is small?",
        ),
        Mistake(
            lambda g, rate: (1 / g, g**2 * rate), "a start divided by g", "V is g · W: which of the two is smaller?"
        ),
        Mistake(lambda g, rate: (1.0, g**2 * rate), "a start as large as W's", "V is g · W at the start too."),
        Mistake(
            lambda g, rate: (g**2 * rate, g), "the two in the other order", "Return the factor of the start first."
        ),
    ),
    hints=(
        "Let G be the gradient with respect to V = g · W. The chain rule gives the gradient with respect to W.",
        "Write down W after one step, and multiply both sides by g: on the left stands V after the step.",
    ),
)

EXERCISES = {"without_gate": WITHOUT_GATE}

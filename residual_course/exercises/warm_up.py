"""Exercise on warm-up: the factor of the learning rate at each step."""

from collections.abc import Callable
from typing import Any

from residual_course.checking.exercise import Exercise, Mistake, Property, close, value_of

Factor = Callable[[int, int], Any]


def warm_up(step: int, steps: int) -> float:
    """Return (step + 1) / steps, and 1 from the last step of the warm-up on."""
    return min(1.0, (step + 1) / steps)


def _factor(f: Factor, step: int, steps: int) -> float:
    return float(value_of(lambda: f(step, steps)))


def at(steps: int, *counted: int) -> Callable[[Factor], None]:
    """Return a test of the factor at the steps ``counted`` from 0."""

    def test(f: Factor) -> None:
        for step in counted:
            close(_factor(f, step, steps), warm_up(step, steps), f"the factor of step {step} of {steps}")

    return test


WARM_UP = Exercise(
    reference=warm_up,
    observe=lambda f: [_factor(f, step, steps) for steps in (10, 4) for step in (0, 1, 2, 3, 7, 9, 10, 11, 50)],
    properties=(
        Property("the first step has 1 / steps", at(10, 0)),
        Property("the second has 2 / steps, the eighth 8 / steps", at(10, 1, 7)),
        Property("the last step of the warm-up and all later ones have 1", at(10, 9, 10, 11, 500)),
        Property("a shorter warm-up grows faster", at(7, 0, 2, 6)),
        Property("a warm-up of one step has 1 at once", at(1, 0, 1), hints=()),
    ),
    mistakes=(
        Mistake(
            lambda step, steps: min(1.0, step / steps),
            "a first step that is counted as 0, with a rate of 0",
            "Steps are counted from 0: use step + 1.",
        ),
        Mistake(lambda step, steps: (step + 1) / steps, "a rate that grows for ever", "Stop at 1, with min."),
        Mistake(
            lambda step, steps: max(1.0, (step + 1) / steps), "max in the place of min", "Take the smaller of the two."
        ),
    ),
    hints=(
        "Which step makes the factor 1, if steps are counted from 0?",
        "(step + 1) / steps grows as it should. What keeps it from passing 1?",
    ),
)

EXERCISES = {"warm_up": WARM_UP}

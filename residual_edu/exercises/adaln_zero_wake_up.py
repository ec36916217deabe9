"""Homework on AdaLN-Zero: six groups of weights, and the step at which each of them first has a gradient."""

from collections.abc import Callable
from functools import partial

from residual_edu.exercises.exercise import Exercise, Mistake, Property, Unmet, answer

STEPS = {
    "F, the last linear map": (5, "0"),
    "A, patches and positions": (0, "1"),
    "D, the gate rows": (3, "1"),
    "C, shift and scale rows": (2, "2"),
    "E, mixers and MLPs": (4, "2"),
    "B, time and class": (1, "2"),
}


def six_digits(f: Callable[[], str]) -> str:
    """Return what was answered, or raise ``Unmet``."""
    said = answer(f, str)
    if len(said) != 6 or not said.isdigit():
        raise Unmet(f"it returned {said!r}, where six digits were asked for, one for each of A to F")
    return said


def wakes(f: Callable[[], str], name: str) -> None:
    """Test one group."""
    at, step = STEPS[name]
    if (said := six_digits(f)[at]) != step:
        raise Unmet(f"its first gradient comes {'earlier' if said > step else 'later'} than after {said}")


WAKE_UP_STEPS = Exercise(
    reference=lambda: "122120",
    observe=six_digits,
    properties=tuple(Property(f"the step of {name}", partial(wakes, name=name)) for name in STEPS),
    mistakes=(
        Mistake(
            lambda: "000000",
            "a network that wakes as a whole",
            "Behind a linear map of zeros every gradient is 0: how far does the first one get?",
        ),
        Mistake(
            lambda: "111110",
            "a network in which everything but the last map wakes at once",
            "At step 1 the gates still stand at 0, and what is behind a gate has its gradient multiplied by it.",
        ),
        Mistake(
            lambda: "022120",
            "patches that hear at step 0, because they come first",
            "The gradient begins at the other end, and at step 0 the last map lets none through.",
        ),
        Mistake(
            lambda: "222120",
            "patches that wait for the branches",
            "The skip carries the gradient past every shut branch: at step 1 it runs down the whole stream.",
        ),
        Mistake(
            lambda: "122220",
            "gates that wait for their branches",
            "A branch speaks from the start; its gate hears it as soon as a gradient comes along the stream.",
        ),
        Mistake(
            lambda: "112120",
            "a condition that wakes with the gates",
            "Between gate and condition stand the projection's weights, and at step 1 they are all 0.",
        ),
        Mistake(
            lambda: "121120",
            "shift and scale rows that wake with the gates",
            "Same matrix, other rows: what they say goes through the branch, and the branch ends at a shut gate.",
        ),
        Mistake(
            lambda: "122110",
            "branches that wake with their gates",
            "A branch's gradient is multiplied by its gate, and at step 1 that is still 0.",
        ),
        Mistake(lambda: "233231", "steps counted from 1", "Count the steps taken: before the first there are 0."),
        Mistake(
            lambda: "021122",
            "the order of the signal, from the front to the back",
            "Gradients come from the back: begin at F.",
        ),
    ),
    hints=(
        "Begin at the loss and walk back. What is the gradient behind a linear map whose weights are all 0?",
        "At step 0 it ends at F. At step 1 it runs along the stream and meets two groups; the other three sit behind a "
        "gate, or behind a projection that is still 0.",
    ),
)

EXERCISES = {"wake_up_steps": WAKE_UP_STEPS}

"""Exercise on AdaLN-Zero: six groups of weights, and the step at which each of them first has a gradient."""

from collections.abc import Callable
from functools import partial
from numbers import Integral

from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet, letters_of

STEPS = {
    "F, the last linear map": (5, "0"),
    "A, patches and positions": (0, "1"),
    "D, the gate rows": (3, "1"),
    "C, shift and scale rows": (2, "2"),
    "E, mixers and MLPs": (4, "2"),
    "B, time and class": (1, "2"),
}


def six_digits(f: Callable[[], str]) -> str:
    """Return the six digits of the answer, or raise ``Unmet``."""
    value = f()
    if isinstance(value, Integral):
        value = f"{int(value):06d}"
    elif isinstance(value, list | tuple):
        value = [str(one) for one in value]
    got = letters_of(lambda: value)
    if len(got) != 6 or not got.isdigit():
        raise Unmet(f"it returned {got!r}, where six digits were asked for, one for each of A to F")
    return got


def steps_agree(f: Callable[[], str], name: str) -> None:
    """Test one group."""
    at, step = STEPS[name]
    if (got := six_digits(f)[at]) != step:
        raise Unmet(f"its first gradient comes {'earlier' if got > step else 'later'} than after {got}")


WAKE_UP_STEPS = Exercise(
    reference=lambda: "122120",
    also_right=(lambda: 122120, lambda: [1, 2, 2, 1, 2, 0], lambda: "1, 2, 2, 1, 2, 0"),
    observe=six_digits,
    properties=tuple(Property(f"the step of {name}", partial(steps_agree, name=name)) for name in STEPS),
    mistakes=(
        Mistake(
            lambda: "000000",
            "a network whose groups all have a gradient from the same step on",
            "Behind a linear map of zeros every gradient is 0: how far does the first one get?",
        ),
        Mistake(
            lambda: "111110",
            "a network in which everything but the last map has a gradient at step 1",
            "At step 1 the gates are still 0, and the gradient of what comes before a gate is multiplied by the gate.",
        ),
        Mistake(
            lambda: "022120",
            "patches with a gradient at step 0, because they come first",
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
            "A branch's output is not 0 from the start; its gate has a gradient as soon as one comes along the stream.",
        ),
        Mistake(
            lambda: "112120",
            "a condition with a gradient from the gates' step on",
            "Between gate and condition stand the projection's weights, and at step 1 they are all 0.",
        ),
        Mistake(
            lambda: "121120",
            "shift and scale rows with a gradient from the gates' step on",
            "Same matrix, other rows: shift and scale act through the branch, and its gate is still 0.",
        ),
        Mistake(
            lambda: "122110",
            "branches with a gradient from their gates' step on",
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
        "Begin at the loss and go back. A linear map has weights that are all 0: what is the gradient of its input?",
        "At step 0 it ends at F. At step 1 it runs along the whole stream: which groups does it reach there without "
        "passing a gate, or a projection's weights, that are still 0?",
    ),
)

EXERCISES = {"wake_up_steps": WAKE_UP_STEPS}

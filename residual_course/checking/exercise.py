"""What an exercise is: a right answer, the properties that an answer must have, and known wrong answers.

The helpers that a property is written with are imported here too, so that an exercise needs one import.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from residual_course.checking.gradients import Part, filled, gradients, same_gradients
from residual_course.checking.properties import close, construct, draw, run, value_of
from residual_course.checking.unchanged import unchanged
from residual_course.checking.unmet import Broken, Unmet, note

__all__ = ["Broken", "Exercise", "Mistake", "Part", "Property", "Unmet", "close", "construct", "draw", "filled"]
__all__ += ["gradients", "note", "run", "same_gradients", "unchanged", "value_of"]

Answer = Any  # what the learner wrote: a function, a class, or a function without arguments that returns a value


@dataclass(frozen=True)
class Property:
    """One thing that must hold; ``test`` raises ``Unmet`` with what was seen instead.

    ``hints`` names those of the exercise's two hints that help where this property fails. What ``trains`` a network
    takes seconds: it is tried last and where all else holds, and a known mistake is recognised without it.
    """

    holds: str
    test: Callable[[Answer], None]
    hints: tuple[int, ...] = (1, 2)
    trains: bool = False


@dataclass(frozen=True)
class Mistake:
    """A known wrong answer, what it looks like, and the next step, printed with the second failing answer."""

    wrong: Answer
    looks_like: str
    next_step: str


@dataclass(frozen=True)
class Exercise:
    """A task with its checks.

    Args:
        reference: a right answer.
        observe: runs an answer on fixed inputs and returns its outputs (tensors, numbers, text, or tuples, lists and
            dicts of these). An answer with the outputs of a known mistake is taken for that mistake, so no two mistakes
            have the same, and none those of the reference. An exception passes through ``observe``, as an output.
        properties: what must hold, in the order in which a learner should mend what does not.
        mistakes: three or four wrong answers, those that learners give most.
        hints: two. The first, a nudge, is printed with the second failing answer, the second, a step and not the line
            to type, with the third; only where they concern the property that failed.
        effort: how many times the usual time limit its answers get; an answer that trains needs more than 1.
    """

    reference: Answer
    observe: Callable[[Answer], Any]
    properties: tuple[Property, ...]
    mistakes: tuple[Mistake, ...]
    hints: tuple[str, str]
    effort: int = 1

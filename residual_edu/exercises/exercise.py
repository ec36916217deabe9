"""What an exercise is: a right answer, the properties it must have, and the wrong answers it must catch.

The helpers that a property is written with come along, so that a lesson's exercises need one import.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from residual_edu.exercises.properties import Broken, Unmet, answer, close, construct, draw, gradients, run

__all__ = ["Broken", "Exercise", "Mistake", "Property"]
__all__ += ["Unmet", "answer", "close", "construct", "draw", "gradients", "run"]

Candidate = Any  # what the learner wrote: a function, a class, or a function without arguments that returns a value


@dataclass(frozen=True)
class Property:
    """One thing that must hold; ``test`` raises ``Unmet`` with what was seen instead."""

    holds: str
    test: Callable[[Candidate], None]


@dataclass(frozen=True)
class Mistake:
    """A known wrong answer, what it looks like, and the next step for whoever made it."""

    wrong: Candidate
    looks_like: str
    next_step: str


@dataclass(frozen=True)
class Exercise:
    """A task with its checks.

    Args:
        reference: a right answer.
        observe: runs a candidate on fixed inputs and returns what it makes of them (tensors, numbers, text, or
            tuples, lists and dicts of these); two candidates that return the same are the same answer, and so the
            known mistake is found. What the candidate raises is let through: it is an observation too.
        properties: what must hold, in the order in which a learner should mend it.
        mistakes: at least six wrong answers.
        hints: two, from a nudge, shown for an untouched stub, to nearly the answer, shown for an unknown mistake in an
            answer that ran through.
        also_right: other right answers, such as torch's own class.
    """

    reference: Candidate
    observe: Callable[[Candidate], Any]
    properties: tuple[Property, ...]
    mistakes: tuple[Mistake, ...]
    hints: tuple[str, str]
    also_right: tuple[Candidate, ...] = ()

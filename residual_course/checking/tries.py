"""Register right and wrong answers in a file of ``tests/course/exercises/unseen``, whose test judges them.

::

    from residual_course.checking.tries import right, wrong


    @wrong("layer_norm", "divides by n - 1")
    def answer(x, eps=1e-5): ...


    right("gradient_sum", "as a NumPy number")(lambda: np.float32(192))
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Try:
    """An answer, the exercise it answers, what it does, and whether its check should accept it."""

    exercise: str
    what: str
    answer: Any
    is_right: bool


TRIES: list[Try] = []  # as they are registered


def right(exercise: str, what: str) -> Callable[[Answer], Answer]:
    """Register what is decorated (a function or a class) as a right answer to ``exercise``."""
    return register(exercise, what, True)


def wrong(exercise: str, what: str) -> Callable[[Answer], Answer]:
    """Register what is decorated as a wrong answer to ``exercise``; ``what`` says what is wrong with it."""
    return register(exercise, what, False)


def register(exercise: str, what: str, is_right: bool) -> Callable[[Answer], Answer]:
    """Return the decorator of both."""

    def decorate(answer: Answer) -> Answer:
        TRIES.append(Try(exercise, what, answer, is_right))
        return answer

    return decorate

"""``check(answer, name)``: print what holds, what does not, and what to try next."""

from pathlib import Path
from typing import Any

from IPython import get_ipython

from residual_course import contents, progress
from residual_course.checking.catalogue import catalogue
from residual_course.checking.exercise import Exercise
from residual_course.checking.judge import is_graded, judge
from residual_course.checking.known_state import known_state
from residual_edu.errors import InvalidInput, check_choice


class _Brief:
    """An error that a notebook shows as its message alone; the report stands above it."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class NotYet(_Brief, AssertionError):
    """A property does not hold yet."""


class UnknownExercise(_Brief, InvalidInput):
    """There is no exercise of this name."""


def check(answer: Any, name: str) -> None:
    """Print whether the properties of the exercise ``name`` hold for ``answer``, what was seen, and what may help.

    For a stub that is still untouched it prints where the first hint is. An answer that raises, exits or never returns
    gets a line of the report that says so. Hints come with further attempts.

    Args:
        answer: the learner's function or class; where a value is asked for, a function that returns it.
        name: the exercise, such as "layer_norm".

    Raises:
        NotYet: at the end, if a property does not hold; of an untouched stub only where nbgrader runs the notebook.
        InvalidInput: for an unknown name, with the nearest that is known.
    """
    exercise = find(name)
    if not callable(answer):
        raise NotYet(f"{name}: hand over the function itself, not what it returns: check(answer, {name!r})")
    judgement = judge(answer, name, exercise)
    print(judgement.text)
    if judgement.unmet is None and is_graded():
        raise NotYet(f"{name}: not attempted yet.")
    if judgement.unmet:
        raise NotYet(f"{name}: {judgement.unmet} of {len(exercise.properties)} do not hold yet.")
    if judgement.unmet == 0 and (said := hold(name)):
        print(said)


def hold(name: str) -> str:
    """Keep that an answer of one's own holds; return what is to be said, most often nothing."""
    if not progress.is_strict() and contents.is_solution(running_cell(), Path.cwd()):
        return "This is the folded solution: the exercise stays open until an answer of your own holds."
    return progress.keep("exercises", name, True)


def running_cell() -> str:
    """Return the source of the notebook's cell that runs now; outside a notebook, nothing."""
    shell = get_ipython()
    return shell.history_manager.input_hist_raw[-1] if shell else ""


def find(name: str) -> Exercise:
    """Return the exercise called ``name``, or raise ``UnknownExercise`` with the nearest."""
    try:
        with known_state():  # a catalogue that is imported under inference mode would stay so
            every = catalogue()
        check_choice("the exercise", name, every)
        return every[name]
    except InvalidInput as error:
        message = str(error)
    raise UnknownExercise(message)  # out here, so that Python shows one error and not two

"""Judge an answer: run its tests in the known state, and say what holds, what does not, and what to try next."""

import os
from dataclasses import dataclass
from typing import Any

from residual_course.checking import report
from residual_course.checking.exercise import Exercise
from residual_course.checking.guard import Guard, Outcome
from residual_course.checking.observation import diagnosis
from residual_course.checking.session import attempts
from residual_course.checking.unmet import NOTES, Unmet

GRADED = ("autograde", "validate")  # nbgrader at work, which gives a cell that raises nothing its points


@dataclass(frozen=True)
class Judgement:
    """What a check prints, and how many properties do not hold; None for an untouched stub."""

    text: str
    unmet: int | None


def judge(answer: Any, name: str, exercise: Exercise) -> Judgement:
    """Return the judgement on an answer, and count it as an attempt of this session if it fails."""
    NOTES.clear()
    guard = Guard(answer, exercise.effort)
    seen = guard.call(exercise.observe)
    if seen.unwritten:
        return Judgement(report.not_attempted(name), None)
    outcomes = outcomes_of(guard, exercise)
    unmet = sum(bool(outcome.trouble) for outcome in outcomes)
    lines = failing(answer, name, exercise, seen, outcomes) if unmet else report.passing(exercise)
    printed = report.printing(guard.printed, report.LINES - len(lines) if unmet else report.PRINTED + 2)
    end = [] if unmet else ["Everything holds."]
    return Judgement("\n".join([*lines, *printed, *end]), unmet)


def outcomes_of(guard: Guard, exercise: Exercise) -> list[Outcome]:
    """Return what came of each property; what trains takes long, and is not tried where one before it does not hold."""
    outcomes: list[Outcome] = []
    for prop in exercise.properties:
        tried = not prop.trains or not any(outcome.trouble for outcome in outcomes)
        outcomes.append(guard.call(prop.test) if tried else Outcome(error=Unmet("it was not tried")))
    return outcomes


def failing(answer: Any, name: str, exercise: Exercise, seen: Outcome, outcomes: list[Outcome]) -> list[str]:
    """Return the lines on an answer that fails: the first property that does not hold, then what may help."""
    pairs = list(zip(exercise.properties, outcomes, strict=True))
    prop, first = next(pair for pair in pairs if pair[1].trouble)
    lines = report.verdict(prop, first, outcomes, answer)
    if Guard(exercise.reference, exercise.effort).call(prop.test).trouble:
        return report.shortened([*lines, *report.IN_THE_WAY.split("\n")])
    failed = frozenset(prop.holds for prop, outcome in pairs if outcome.trouble and not prop.trains)
    found = diagnosis(exercise, seen, failed)
    if is_graded():  # once, so with the next step; the hints are the lesson's
        return report.shortened([*lines, *(report.diagnosed(found, True).split("\n") if found else [])])
    troubles = tuple(outcome.trouble for outcome in outcomes)
    counted = attempts(name)
    counted.add(answer, troubles, first.mechanical)
    return report.shortened([*lines, *report.next_step(exercise, prop, first, found, counted)])


def is_graded() -> bool:
    """Whether nbgrader runs the notebook."""
    return os.environ.get("NBGRADER_EXECUTION") in GRADED

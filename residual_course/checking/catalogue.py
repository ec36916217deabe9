"""All exercises by name: each module of the room ``exercises`` that has a dict ``EXERCISES`` adds its own."""

import pkgutil
from functools import cache
from importlib import import_module
from pathlib import Path

from residual_course.checking.exercise import Exercise


@cache
def catalogue() -> dict[str, Exercise]:
    """Return every exercise of the course by its name."""
    found: dict[str, Exercise] = {}
    for module in sorted(pkgutil.iter_modules([str(Path(__file__).parents[1] / "exercises")])):
        found |= getattr(import_module(f"residual_course.exercises.{module.name}"), "EXERCISES", {})
    return found

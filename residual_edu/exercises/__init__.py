"""Exercises: the properties that an answer must have, hints, and the known mistakes, each with what it looks like.

Modules with solutions and mistakes are imported by the first ``check`` and by nothing else.
"""

from residual_edu.exercises.attempt import attempt
from residual_edu.exercises.check import check

__all__ = ["attempt", "check"]

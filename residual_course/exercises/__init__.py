"""Exercises: the properties that an answer must have, hints, and the known mistakes, each with what it looks like.

Modules with solutions and mistakes are imported by the first ``check`` and by nothing else.
"""

from residual_course.checking.attempt import attempt
from residual_course.checking.check import check

__all__ = ["attempt", "check"]

"""Homework: what is asked, its properties, its hints, and the wrong answers it must catch."""

from residual_edu.exercises.attempt import attempt
from residual_edu.exercises.check import check

__all__ = ["attempt", "check"]

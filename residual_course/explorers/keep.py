"""What was tried in an explorer stays in its picture, as dots or pale curves, until the learner clears it."""

from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

MOST = 60  # marks that are kept; with more, the oldest goes
Marks = Mapping[Line2D, tuple[ArrayLike, ArrayLike]]  # the x and y that a setting adds to each line


class Tried:
    """The marks of the settings that were tried, none of them twice.

    A line shows all its marks, one after the other with a gap between them: a dot each where it has markers only, else
    a curve each.

    Args:
        keep: returns the marks of the setting that was drawn last.
    """

    def __init__(self, keep: Callable[[], Marks]) -> None:
        self.keep, self.marks = keep, dict[tuple[Line2D, bytes], np.ndarray]()

    def add(self) -> None:
        """Keep the marks of the setting that was drawn last."""
        for line, points in self.keep().items():
            mark = np.array(points, float).reshape(2, -1)
            self.marks[line, mark.tobytes()] = mark
        lines = {line for line, _ in self.marks}
        while len(self.marks) > MOST:
            del self.marks[next(iter(self.marks))]
        self.show(lines)

    def clear(self) -> None:
        """Forget every mark."""
        lines = {line for line, _ in self.marks}
        self.marks.clear()
        self.show(lines)

    def show(self, lines: set[Line2D]) -> None:
        """Set the data of ``lines`` to their marks."""
        gap = np.full((2, 1), np.nan)
        for line in lines:
            marks = [part for (where, _), mark in self.marks.items() if where is line for part in (mark, gap)]
            line.set_data(np.concatenate(marks, axis=1) if marks else ([], []))

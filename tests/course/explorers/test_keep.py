"""What was tried stays in the picture: no mark twice, at most sixty, and none once it is cleared."""

import numpy as np
import pytest
from matplotlib.lines import Line2D

from residual_course.explorers.keep import MOST, Tried


class Drawn:
    """Two lines, and the marks of the setting that was drawn last."""

    def __init__(self):
        self.dots, self.curves, self.now = Line2D([], []), Line2D([], []), {}
        self.tried = Tried(lambda: self.now)

    def draw(self, **marks):
        self.now = {getattr(self, name): points for name, points in marks.items()}
        self.tried.add()


def finite(line):
    """The points of a line without its gaps."""
    points = np.asarray(line.get_xydata())
    return points[~np.isnan(points).any(axis=1)].tolist()


@pytest.fixture
def drawn():
    return Drawn()


def test_each_setting_leaves_its_mark_in_its_line(drawn):
    drawn.draw(dots=([1], [2]))
    drawn.draw(dots=([3], [4]), curves=([0, 1], [5, 6]))
    assert finite(drawn.dots) == [[1, 2], [3, 4]] and finite(drawn.curves) == [[0, 5], [1, 6]]


def test_two_curves_are_not_joined(drawn):
    drawn.draw(curves=([0, 1], [5, 6]))
    drawn.draw(curves=([0, 1], [7, 8]))
    assert np.isnan(drawn.curves.get_xydata()).all(axis=1).tolist() == [False, False, True, False, False, True]


def test_a_setting_tried_again_leaves_no_second_mark(drawn):
    for height in (1, 2, 1, 1):
        drawn.draw(dots=([0], [height]))
    assert finite(drawn.dots) == [[0, 1], [0, 2]]


def test_the_oldest_mark_goes_when_there_are_too_many(drawn):
    drawn.draw(curves=([0, 1], [5, 6]))
    for height in range(MOST):
        drawn.draw(dots=([0], [height]))
    assert finite(drawn.curves) == [] and finite(drawn.dots) == [[0, height] for height in range(MOST)]
    drawn.draw(dots=([0], [MOST]))
    assert len(drawn.tried.marks) == MOST and finite(drawn.dots)[0] == [0, 1]


def test_a_setting_without_a_mark_changes_nothing(drawn):
    drawn.draw(dots=([1], [2]))
    drawn.draw()
    assert finite(drawn.dots) == [[1, 2]]


def test_what_was_kept_does_not_change_with_the_data_that_it_came_from(drawn):
    curve = np.array([1.0, 2.0])
    drawn.draw(curves=([0, 1], curve))
    curve += 5
    drawn.draw(dots=([0], [0]))
    drawn.draw(curves=([0, 1], [9, 9]))
    assert finite(drawn.curves) == [[0, 1], [1, 2], [0, 9], [1, 9]]


def test_nothing_stays_after_it_was_cleared(drawn):
    drawn.draw(dots=([1], [2]), curves=([0, 1], [5, 6]))
    drawn.tried.clear()
    assert finite(drawn.dots) == finite(drawn.curves) == [] and not drawn.tried.marks
    drawn.draw(dots=([1], [2]))
    assert finite(drawn.dots) == [[1, 2]]
